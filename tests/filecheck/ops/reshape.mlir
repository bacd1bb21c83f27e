// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics -p glow-irgen | filecheck %s --check-prefix=INSTR

// The result type is part of the operator; instructions view the buffer.

// INSTR: %{{.*}} = glow_instr.tensorview %{{.*}} : memref<2x3xf32> to memref<3x2xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @reshape {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.reshape %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r0 = glow.reshape %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK: = glow.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %r1 = glow.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
}

// -----

// expected-error@unknown {{glow.reshape: tensor<2x3xf32> does not reshape to tensor<7xf32>}}
// CHECK: glow.reshape: tensor<2x3xf32> does not reshape to tensor<7xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.reshape %x : (tensor<2x3xf32>) -> tensor<7xf32>
}

// -----

// expected-error@unknown {{glow.reshape: tensor<2x3xf32> does not reshape to tensor<6xi32>}}
// CHECK: glow.reshape: tensor<2x3xf32> does not reshape to tensor<6xi32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.reshape %x : (tensor<2x3xf32>) -> tensor<6xi32>
}
