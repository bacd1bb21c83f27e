// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The adjoint of a convolution: output_pads choose among the sizes that it could have had.

glow.placeholder @a0 input : tensor<1x2x3x4xf32>
glow.placeholder @a1 input : tensor<2x3x3x3xf32>
glow.placeholder @a2 input : tensor<3xf32>
glow.placeholder @a3 input : tensor<2x4x3x3xf32>
glow.placeholder @a4 input : tensor<4x2x3x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<1x2x3x4xf32>
  %a1 = glow.get @a1 : tensor<2x3x3x3xf32>
  %a2 = glow.get @a2 : tensor<3xf32>
  // CHECK: = glow.conv_transpose %a0, %a1, %a2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, output_pads = array<i64: 0, 0>} : (tensor<1x2x3x4xf32>, tensor<2x3x3x3xf32>, tensor<3xf32>) -> tensor<1x3x5x6xf32>
  %0 = glow.conv_transpose %a0, %a1, %a2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, output_pads = array<i64: 0, 0>} : (tensor<1x2x3x4xf32>, tensor<2x3x3x3xf32>, tensor<3xf32>) -> tensor<1x3x5x6xf32>
  %a3 = glow.get @a3 : tensor<2x4x3x3xf32>
  %a4 = glow.get @a4 : tensor<4x2x3x2xf32>
  // CHECK: = glow.conv_transpose %a3, %a4 {group = 2 : i64, strides = array<i64: 2, 3>, pads = array<i64: 1, 0, 1, 1>, output_pads = array<i64: 1, 2>, dilations = array<i64: 1, 1>} : (tensor<2x4x3x3xf32>, tensor<4x2x3x2xf32>) -> tensor<2x4x6x9xf32>
  %1 = glow.conv_transpose %a3, %a4 {group = 2 : i64, strides = array<i64: 2, 3>, pads = array<i64: 1, 0, 1, 1>, output_pads = array<i64: 1, 2>, dilations = array<i64: 1, 1>} : (tensor<2x4x3x3xf32>, tensor<4x2x3x2xf32>) -> tensor<2x4x6x9xf32>
}

// -----

// expected-error@unknown {{glow.conv_transpose: output_pads [1, -2] for 2 spatial axes}}
// CHECK: output_pads [1, -2] for 2 spatial axes
glow.placeholder @a0 input : tensor<2x4x3x3xf32>
glow.placeholder @a1 input : tensor<4x2x3x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x4x3x3xf32>
  %a1 = glow.get @a1 : tensor<4x2x3x2xf32>
  %0 = glow.conv_transpose %a0, %a1 {group = 2 : i64, strides = array<i64: 2, 3>, pads = array<i64: 1, 0, 1, 1>, output_pads = array<i64: 1, -2>, dilations = array<i64: 1, 1>} : (tensor<2x4x3x3xf32>, tensor<4x2x3x2xf32>) -> tensor<2x4x6x9xf32>
}
