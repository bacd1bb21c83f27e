// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A state and a cell.

glow.placeholder @a0 input : tensor<3x2x3xf32>
glow.placeholder @a1 input : tensor<1x8x3xf32>
glow.placeholder @a2 input : tensor<1x8x2xf32>
glow.placeholder @a3 input : tensor<3x2x3xf32>
glow.placeholder @a4 input : tensor<1x8x3xf32>
glow.placeholder @a5 input : tensor<1x8x2xf32>
glow.placeholder @a6 input : tensor<1x16xf32>
glow.placeholder @a7 input : tensor<2xi32>
glow.placeholder @a8 input : tensor<1x2x2xf32>
glow.placeholder @a9 input : tensor<1x2x2xf32>
glow.placeholder @a10 input : tensor<1x6xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x2x3xf32>
  %a1 = glow.get @a1 : tensor<1x8x3xf32>
  %a2 = glow.get @a2 : tensor<1x8x2xf32>
  // CHECK: = glow.lstm %a0, %a1, %a2 {activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
  %0, %1, %2 = glow.lstm %a0, %a1, %a2 {activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
  %a3 = glow.get @a3 : tensor<3x2x3xf32>
  %a4 = glow.get @a4 : tensor<1x8x3xf32>
  %a5 = glow.get @a5 : tensor<1x8x2xf32>
  %a6 = glow.get @a6 : tensor<1x16xf32>
  %a7 = glow.get @a7 : tensor<2xi32>
  %a8 = glow.get @a8 : tensor<1x2x2xf32>
  %a9 = glow.get @a9 : tensor<1x2x2xf32>
  %a10 = glow.get @a10 : tensor<1x6xf32>
  // CHECK: = glow.lstm %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10 {direction = "reverse", activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>, tensor<1x16xf32>, tensor<2xi32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x6xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
  %3, %4, %5 = glow.lstm %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10 {direction = "reverse", activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>, tensor<1x16xf32>, tensor<2xi32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x6xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
}

// -----

// expected-error@unknown {{glow.lstm: 1 activations for 1 directions of 3}}
// CHECK: 1 activations for 1 directions of 3
glow.placeholder @a0 input : tensor<3x2x3xf32>
glow.placeholder @a1 input : tensor<1x8x3xf32>
glow.placeholder @a2 input : tensor<1x8x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x2x3xf32>
  %a1 = glow.get @a1 : tensor<1x8x3xf32>
  %a2 = glow.get @a2 : tensor<1x8x2xf32>
  %0, %1, %2 = glow.lstm %a0, %a1, %a2 {activations = "sigmoid", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
}
