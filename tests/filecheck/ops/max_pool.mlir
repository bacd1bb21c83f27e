// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Maxima of windows, their places, and where their gradient goes.

glow.placeholder @a0 input : tensor<2x2x6x5xf32>
glow.placeholder @a1 input : tensor<1x2x6x5xf32>
glow.placeholder @a2 input : tensor<2x2x6x5xf32>
glow.placeholder @a3 input : tensor<1x2x6x5xf32>
glow.placeholder @a4 input : tensor<1x2x3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x6x5xf32>
  // CHECK: = glow.max_pool %a0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
  %0 = glow.max_pool %a0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
  %a1 = glow.get @a1 : tensor<1x2x6x5xf32>
  // CHECK: = glow.max_pool %a1 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x3x4xf32>
  %1 = glow.max_pool %a1 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x3x4xf32>
  %a2 = glow.get @a2 : tensor<2x2x6x5xf32>
  // CHECK: = glow.max_pool_with_argmax %a2 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<2x2x6x5xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3x4xi64>)
  %2, %3 = glow.max_pool_with_argmax %a2 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<2x2x6x5xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3x4xi64>)
  %a3 = glow.get @a3 : tensor<1x2x6x5xf32>
  %a4 = glow.get @a4 : tensor<1x2x3x4xf32>
  // CHECK: = glow.max_pool_backward %a3, %a4 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x6x5xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x6x5xf32>
  %4 = glow.max_pool_backward %a3, %a4 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x6x5xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x6x5xf32>
}

// -----

// expected-error@unknown {{glow.max_pool: kernel [0, 2] must be positive}}
// CHECK: kernel [0, 2] must be positive
glow.placeholder @a0 input : tensor<2x2x6x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x6x5xf32>
  %0 = glow.max_pool %a0 {kernel = array<i64: 0, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
}
