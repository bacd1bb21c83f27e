// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Indices are i64.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @arg_reduce {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.arg_max %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2xi64>
  %r0 = glow.arg_max %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2xi64>
  // CHECK: = glow.arg_min %x {keepdims = true, select_last_index = true, axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<1x3xi64>
  %r1 = glow.arg_min %x {axis = 0 : i64, keepdims = true, select_last_index = true} : (tensor<2x3xf32>) -> tensor<1x3xi64>
}

// -----

// expected-error@unknown {{glow.arg_max: axis 2 is outside a tensor of rank 2}}
// CHECK: glow.arg_max: axis 2 is outside a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.arg_max %x {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2xi64>
}

// -----

// expected-error@unknown {{glow.arg_min: axis 1 of tensor<2x0xf32> has no elements}}
// CHECK: glow.arg_min: axis 1 of tensor<2x0xf32> has no elements
glow.placeholder @x input : tensor<2x0xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x0xf32>
  %r0 = glow.arg_min %x {axis = 1 : i64} : (tensor<2x0xf32>) -> tensor<2xi64>
}
