// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The filter's gradient: the result type is the filter's.

glow.placeholder @a0 input : tensor<2x2x5x6xf32>
glow.placeholder @a1 input : tensor<2x3x3x3xf32>
glow.placeholder @a2 input : tensor<1x4x7xf32>
glow.placeholder @a3 input : tensor<1x2x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x5x6xf32>
  %a1 = glow.get @a1 : tensor<2x3x3x3xf32>
  // CHECK: = glow.conv_backward_weights %a0, %a1 {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x2x5x6xf32>, tensor<2x3x3x3xf32>) -> tensor<3x2x3x3xf32>
  %0 = glow.conv_backward_weights %a0, %a1 {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x2x5x6xf32>, tensor<2x3x3x3xf32>) -> tensor<3x2x3x3xf32>
  %a2 = glow.get @a2 : tensor<1x4x7xf32>
  %a3 = glow.get @a3 : tensor<1x2x5xf32>
  // CHECK: = glow.conv_backward_weights %a2, %a3 {group = 2 : i64, dilations = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>} : (tensor<1x4x7xf32>, tensor<1x2x5xf32>) -> tensor<2x2x2xf32>
  %1 = glow.conv_backward_weights %a2, %a3 {group = 2 : i64, dilations = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>} : (tensor<1x4x7xf32>, tensor<1x2x5xf32>) -> tensor<2x2x2xf32>
}

// -----

// expected-error@unknown {{glow.conv_backward_weights: gradient tensor<2x3x3x3xf32> is not of the convolution of tens}}
// CHECK: is not of the convolution of
glow.placeholder @a0 input : tensor<2x2x5x6xf32>
glow.placeholder @a1 input : tensor<2x3x3x3xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x2x5x6xf32>
  %a1 = glow.get @a1 : tensor<2x3x3x3xf32>
  %0 = glow.conv_backward_weights %a0, %a1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x2x5x6xf32>, tensor<2x3x3x3xf32>) -> tensor<3x2x3x3xf32>
}
