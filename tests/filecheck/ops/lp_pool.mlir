// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// p-norms of windows.

glow.placeholder @a0 input : tensor<2x2x6x5xf32>
glow.placeholder @a1 input : tensor<1x2x6x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x6x5xf32>
  // CHECK: = glow.lp_pool %a0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
  %0 = glow.lp_pool %a0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x2x6x5xf32>) -> tensor<2x2x3x2xf32>
  %a1 = glow.get @a1 : tensor<1x2x6x5xf32>
  // CHECK: = glow.lp_pool %a1 {p = 3 : i64, kernel = array<i64: 3, 2>, pads = array<i64: 1, 0, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x6x5xf32>
  %1 = glow.lp_pool %a1 {p = 3 : i64, kernel = array<i64: 3, 2>, pads = array<i64: 1, 0, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x6x5xf32>
}

// -----

// expected-error@unknown {{glow.lp_pool: p is 0, expected at least 1}}
// CHECK: p is 0, expected at least 1
glow.placeholder @a0 input : tensor<1x2x6x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<1x2x6x5xf32>
  %0 = glow.lp_pool %a0 {p = 0 : i64, kernel = array<i64: 3, 2>, pads = array<i64: 1, 0, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x6x5xf32>) -> tensor<1x2x6x5xf32>
}
