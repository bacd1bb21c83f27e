// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Means of windows; padding counts where it is asked for.

glow.placeholder @a0 input : tensor<2x2x6x5xf32>
glow.placeholder @a1 input : tensor<1x2x6x5xf32>
glow.placeholder @a2 input : tensor<1x2x3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x6x5xf32>
  // CHECK: = glow.avg_pool %a0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
  %0 = glow.avg_pool %a0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
  %a1 = glow.get @a1 : tensor<1x2x6x5xf32>
  // CHECK: = glow.avg_pool %a1 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x3x4xf32>
  %1 = glow.avg_pool %a1 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x3x4xf32>
  %a2 = glow.get @a2 : tensor<1x2x3x4xf32>
  // CHECK: = glow.avg_pool_backward %a2 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x6x5xf32>
  %2 = glow.avg_pool_backward %a2 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x6x5xf32>
}

// -----

// expected-error@unknown {{glow.avg_pool: a kernel of [9, 2] with dilations [1, 1] does not fit [6, 5] padded by [0,}}
// CHECK: does not fit [6, 5]
glow.placeholder @a0 input : tensor<2x2x6x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x6x5xf32>
  %0 = glow.avg_pool %a0 {kernel = array<i64: 9, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
}
