// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics -p glow-irgen | filecheck %s --check-prefix=INSTR

// Any number of operands.

// INSTR: glow_instr.concat @out %{{.*}}, @in %{{.*}}, @in %{{.*}} {axis = 1 : i64} : memref<2x4xf32>, memref<2x3xf32>, memref<2x1xf32>
glow.placeholder @a input : tensor<2x3xf32>
glow.placeholder @b input : tensor<2x1xf32>
glow.func @concat {
  %a = glow.get @a : tensor<2x3xf32>
  %b = glow.get @b : tensor<2x1xf32>
  // CHECK: = glow.concat %a, %b {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %r0 = glow.concat %a, %b {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  // CHECK: = glow.concat %a {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.concat %a {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.concat: tensor<2x3xf32> and tensor<2x1xf32> do not join along axis 0}}
// CHECK: glow.concat: tensor<2x3xf32> and tensor<2x1xf32> do not join along axis 0
glow.placeholder @a input : tensor<2x3xf32>
glow.placeholder @b input : tensor<2x1xf32>
glow.func @error0 {
  %a = glow.get @a : tensor<2x3xf32>
  %b = glow.get @b : tensor<2x1xf32>
  %r0 = glow.concat %a, %b {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<4x3xf32>
}

// -----

// expected-error@unknown {{glow.concat: axis 2 is outside a tensor of rank 2}}
// CHECK: glow.concat: axis 2 is outside a tensor of rank 2
glow.placeholder @a input : tensor<2x3xf32>
glow.func @error1 {
  %a = glow.get @a : tensor<2x3xf32>
  %r0 = glow.concat %a {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.concat: needs at least one input}}
// CHECK: glow.concat: needs at least one input
glow.func @error2 {
  %r0 = glow.concat {axis = 0 : i64} : () -> tensor<2x3xf32>
}
