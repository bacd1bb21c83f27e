// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Index tuples; batch axes are walked together.

glow.placeholder @d input : tensor<2x5x3xf32>
glow.placeholder @i input : tensor<4x2xi64>
glow.placeholder @b input : tensor<2x4x1xi64>
glow.func @gather_nd {
  %d = glow.get @d : tensor<2x5x3xf32>
  %i = glow.get @i : tensor<4x2xi64>
  %b = glow.get @b : tensor<2x4x1xi64>
  // CHECK: = glow.gather_nd %d, %i : (tensor<2x5x3xf32>, tensor<4x2xi64>) -> tensor<4x3xf32>
  %r0 = glow.gather_nd %d, %i : (tensor<2x5x3xf32>, tensor<4x2xi64>) -> tensor<4x3xf32>
  // CHECK: = glow.gather_nd %d, %b {batch_dims = 1 : i64} : (tensor<2x5x3xf32>, tensor<2x4x1xi64>) -> tensor<2x4x3xf32>
  %r1 = glow.gather_nd %d, %b {batch_dims = 1 : i64} : (tensor<2x5x3xf32>, tensor<2x4x1xi64>) -> tensor<2x4x3xf32>
}

// -----

// expected-error@unknown {{glow.gather_nd: index tuples of 2 into 1 axes of tensor<2xf32>}}
// CHECK: glow.gather_nd: index tuples of 2 into 1 axes of tensor<2xf32>
glow.placeholder @d input : tensor<2xf32>
glow.placeholder @i input : tensor<4x2xi64>
glow.func @error0 {
  %d = glow.get @d : tensor<2xf32>
  %i = glow.get @i : tensor<4x2xi64>
  %r0 = glow.gather_nd %d, %i : (tensor<2xf32>, tensor<4x2xi64>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.gather_nd: tensor<2x3xf32> and tensor<4x1xi64> do not share 1 batch axes}}
// CHECK: glow.gather_nd: tensor<2x3xf32> and tensor<4x1xi64> do not share 1 batch axes
glow.placeholder @d input : tensor<2x3xf32>
glow.placeholder @i input : tensor<4x1xi64>
glow.func @error1 {
  %d = glow.get @d : tensor<2x3xf32>
  %i = glow.get @i : tensor<4x1xi64>
  %r0 = glow.gather_nd %d, %i {batch_dims = 1 : i64} : (tensor<2x3xf32>, tensor<4x1xi64>) -> tensor<4xf32>
}
