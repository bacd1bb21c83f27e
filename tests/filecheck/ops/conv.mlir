// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Windows of every rank and layout; bias is optional.

glow.placeholder @a0 input : tensor<1x2x5x6xf32>
glow.placeholder @a1 input : tensor<3x2x3x3xf32>
glow.placeholder @a2 input : tensor<3xf32>
glow.placeholder @a3 input : tensor<2x4x7x6xf32>
glow.placeholder @a4 input : tensor<6x2x3x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<1x2x5x6xf32>
  %a1 = glow.get @a1 : tensor<3x2x3x3xf32>
  %a2 = glow.get @a2 : tensor<3xf32>
  // CHECK: = glow.conv %a0, %a1, %a2 {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x5x6xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x5x6xf32>
  %0 = glow.conv %a0, %a1, %a2 {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x5x6xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x5x6xf32>
  %a3 = glow.get @a3 : tensor<2x4x7x6xf32>
  %a4 = glow.get @a4 : tensor<6x2x3x2xf32>
  // CHECK: = glow.conv %a3, %a4 {group = 2 : i64, strides = array<i64: 2, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x7x6xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x3x2xf32>
  %1 = glow.conv %a3, %a4 {group = 2 : i64, strides = array<i64: 2, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x7x6xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x3x2xf32>
}

// -----

// expected-error@unknown {{glow.conv: 4 input channels, the filter takes 2 in each of 3 groups}}
// CHECK: 4 input channels, the filter takes 2 in each of 3 groups
glow.placeholder @a0 input : tensor<2x4x7x6xf32>
glow.placeholder @a1 input : tensor<6x2x3x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x4x7x6xf32>
  %a1 = glow.get @a1 : tensor<6x2x3x2xf32>
  %0 = glow.conv %a0, %a1 {group = 3 : i64, strides = array<i64: 2, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x7x6xf32>, tensor<6x2x3x2xf32>) -> tensor<2x6x3x2xf32>
}

// -----

// expected-error@unknown {{glow.conv: pads [1, 1] has 2 entries, 2 spatial axes need 4}}
// CHECK: pads [1, 1] has 2 entries, 2 spatial axes need 4
glow.placeholder @a0 input : tensor<1x2x5x6xf32>
glow.placeholder @a1 input : tensor<3x2x3x3xf32>
glow.placeholder @a2 input : tensor<3xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<1x2x5x6xf32>
  %a1 = glow.get @a1 : tensor<3x2x3x3xf32>
  %a2 = glow.get @a2 : tensor<3xf32>
  %0 = glow.conv %a0, %a1, %a2 {pads = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x5x6xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x5x6xf32>
}
