// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Statistics over the axes from `axis` on; scale and bias are optional.

glow.placeholder @a0 input : tensor<3x6xf32>
glow.placeholder @a1 input : tensor<6xf32>
glow.placeholder @a2 input : tensor<6xf32>
glow.placeholder @a3 input : tensor<2x3x4xf32>
glow.placeholder @a4 input : tensor<3x4xf32>
glow.placeholder @a5 input : tensor<3x6xf32>
glow.placeholder @a6 input : tensor<6xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x6xf32>
  %a1 = glow.get @a1 : tensor<6xf32>
  %a2 = glow.get @a2 : tensor<6xf32>
  // CHECK: = glow.layer_norm %a0, %a1, %a2 {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<3x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  %0 = glow.layer_norm %a0, %a1, %a2 {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<3x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  %a3 = glow.get @a3 : tensor<2x3x4xf32>
  %a4 = glow.get @a4 : tensor<3x4xf32>
  // CHECK: = glow.layer_norm %a3, %a4 {epsilon = 1.000000e-01 : f64, axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %1 = glow.layer_norm %a3, %a4 {epsilon = 1.000000e-01 : f64, axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %a5 = glow.get @a5 : tensor<3x6xf32>
  %a6 = glow.get @a6 : tensor<6xf32>
  // CHECK: = glow.rms_norm %a5, %a6 {axis = 1 : i64} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
  %2 = glow.rms_norm %a5, %a6 {axis = 1 : i64} : (tensor<3x6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
}

// -----

// expected-error@unknown {{glow.layer_norm: axis 5 is outside a tensor of rank 2}}
// CHECK: axis 5 is outside a tensor of rank 2
glow.placeholder @a0 input : tensor<3x6xf32>
glow.placeholder @a1 input : tensor<6xf32>
glow.placeholder @a2 input : tensor<6xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x6xf32>
  %a1 = glow.get @a1 : tensor<6xf32>
  %a2 = glow.get @a2 : tensor<6xf32>
  %0 = glow.layer_norm %a0, %a1, %a2 {axis = 5 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<3x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<3x6xf32>
}
