// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics -p glow-irgen | filecheck %s --check-prefix=INSTR

// Values and indices.

// INSTR: glow_instr.top_k @out %{{.*}}, @out %{{.*}}, @in %{{.*}} {k = 2 : i64, axis = 1 : i64} : memref<2x2xf32>, memref<2x2xi64>, memref<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @top_k {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.top_k %x {k = 2 : i64, axis = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  %r0, %r1 = glow.top_k %x {k = 2 : i64, axis = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  // CHECK: = glow.top_k %x {largest = false, sorted = false, k = 1 : i64, axis = 0 : i64} : (tensor<2x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xi64>)
  %r2, %r3 = glow.top_k %x {k = 1 : i64, axis = 0 : i64, largest = false, sorted = false} : (tensor<2x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xi64>)
}

// -----

// expected-error@unknown {{glow.top_k: k is 4, axis 1 has 3 elements}}
// CHECK: glow.top_k: k is 4, axis 1 has 3 elements
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0, %r1 = glow.top_k %x {k = 4 : i64, axis = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
}
