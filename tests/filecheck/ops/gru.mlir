// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Two activations.

glow.placeholder @a0 input : tensor<3x2x3xf32>
glow.placeholder @a1 input : tensor<1x6x3xf32>
glow.placeholder @a2 input : tensor<1x6x2xf32>
glow.placeholder @a3 input : tensor<3x2x3xf32>
glow.placeholder @a4 input : tensor<1x6x3xf32>
glow.placeholder @a5 input : tensor<1x6x2xf32>
glow.placeholder @a6 input : tensor<1x12xf32>
glow.placeholder @a7 input : tensor<2xi32>
glow.placeholder @a8 input : tensor<1x2x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x2x3xf32>
  %a1 = glow.get @a1 : tensor<1x6x3xf32>
  %a2 = glow.get @a2 : tensor<1x6x2xf32>
  // CHECK: = glow.gru %a0, %a1, %a2 {activations = "sigmoid,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x6x3xf32>, tensor<1x6x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>)
  %0, %1 = glow.gru %a0, %a1, %a2 {activations = "sigmoid,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x6x3xf32>, tensor<1x6x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>)
  %a3 = glow.get @a3 : tensor<3x2x3xf32>
  %a4 = glow.get @a4 : tensor<1x6x3xf32>
  %a5 = glow.get @a5 : tensor<1x6x2xf32>
  %a6 = glow.get @a6 : tensor<1x12xf32>
  %a7 = glow.get @a7 : tensor<2xi32>
  %a8 = glow.get @a8 : tensor<1x2x2xf32>
  // CHECK: = glow.gru %a3, %a4, %a5, %a6, %a7, %a8 {direction = "reverse", activations = "sigmoid,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>} : (tensor<3x2x3xf32>, tensor<1x6x3xf32>, tensor<1x6x2xf32>, tensor<1x12xf32>, tensor<2xi32>, tensor<1x2x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>)
  %2, %3 = glow.gru %a3, %a4, %a5, %a6, %a7, %a8 {direction = "reverse", activations = "sigmoid,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>} : (tensor<3x2x3xf32>, tensor<1x6x3xf32>, tensor<1x6x2xf32>, tensor<1x12xf32>, tensor<2xi32>, tensor<1x2x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>)
}

// -----

// expected-error@unknown {{glow.gru: 1 activations for 1 directions of 2}}
// CHECK: 1 activations for 1 directions of 2
glow.placeholder @a0 input : tensor<3x2x3xf32>
glow.placeholder @a1 input : tensor<1x6x3xf32>
glow.placeholder @a2 input : tensor<1x6x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x2x3xf32>
  %a1 = glow.get @a1 : tensor<1x6x3xf32>
  %a2 = glow.get @a2 : tensor<1x6x2xf32>
  %0, %1 = glow.gru %a0, %a1, %a2 {activations = "sigmoid", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x6x3xf32>, tensor<1x6x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>)
}

// -----

// expected-error@unknown {{glow.gru: clip is -1.0, expected 0 (no clipping) or a positive bound}}
// CHECK: glow.gru: clip is -1.0, expected 0 (no clipping) or a positive bound
glow.placeholder @a0 input : tensor<3x2x3xf32>
glow.placeholder @a1 input : tensor<1x6x3xf32>
glow.placeholder @a2 input : tensor<1x6x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x2x3xf32>
  %a1 = glow.get @a1 : tensor<1x6x3xf32>
  %a2 = glow.get @a2 : tensor<1x6x2xf32>
  %0, %1 = glow.gru %a0, %a1, %a2 {activations = "sigmoid,tanh", clip = -1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x3xf32>, tensor<1x6x3xf32>, tensor<1x6x2xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>)
}
