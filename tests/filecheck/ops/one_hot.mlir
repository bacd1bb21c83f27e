// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A new axis of a given depth; the second operand holds the off and the on value.

glow.placeholder @i input : tensor<3xi64>
glow.placeholder @v input : tensor<2xf32>
glow.func @one_hot {
  %i = glow.get @i : tensor<3xi64>
  %v = glow.get @v : tensor<2xf32>
  // CHECK: = glow.one_hot %i, %v {depth = 4 : i64, axis = 1 : i64} : (tensor<3xi64>, tensor<2xf32>) -> tensor<3x4xf32>
  %r0 = glow.one_hot %i, %v {depth = 4 : i64, axis = 1 : i64} : (tensor<3xi64>, tensor<2xf32>) -> tensor<3x4xf32>
}

// -----

// expected-error@unknown {{glow.one_hot: axis 2 is outside a tensor of rank 2}}
// CHECK: glow.one_hot: axis 2 is outside a tensor of rank 2
glow.placeholder @i input : tensor<3xi64>
glow.placeholder @v input : tensor<2xf32>
glow.func @error0 {
  %i = glow.get @i : tensor<3xi64>
  %v = glow.get @v : tensor<2xf32>
  %r0 = glow.one_hot %i, %v {depth = 4 : i64, axis = 2 : i64} : (tensor<3xi64>, tensor<2xf32>) -> tensor<3x4xf32>
}

// -----

// expected-error@unknown {{glow.one_hot: values are tensor<3xf32>, expected an off and an on value}}
// CHECK: glow.one_hot: values are tensor<3xf32>, expected an off and an on value
glow.placeholder @i input : tensor<3xi64>
glow.placeholder @v input : tensor<3xf32>
glow.func @error1 {
  %i = glow.get @i : tensor<3xi64>
  %v = glow.get @v : tensor<3xf32>
  %r0 = glow.one_hot %i, %v {depth = 4 : i64, axis = 0 : i64} : (tensor<3xi64>, tensor<3xf32>) -> tensor<4x3xf32>
}

// -----

// expected-error@unknown {{glow.one_hot: depth -1 is negative}}
// CHECK: glow.one_hot: depth -1 is negative
glow.placeholder @i input : tensor<3xi64>
glow.placeholder @v input : tensor<2xf32>
glow.func @error2 {
  %i = glow.get @i : tensor<3xi64>
  %v = glow.get @v : tensor<2xf32>
  %r0 = glow.one_hot %i, %v {depth = -1 : i64, axis = 0 : i64} : (tensor<3xi64>, tensor<2xf32>) -> tensor<4x3xf32>
}
