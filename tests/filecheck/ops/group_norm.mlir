// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Groups of channels, or single ones.

glow.placeholder @a0 input : tensor<2x4x3xf32>
glow.placeholder @a1 input : tensor<4xf32>
glow.placeholder @a2 input : tensor<4xf32>
glow.placeholder @a3 input : tensor<1x6x2x2xf32>
glow.placeholder @a4 input : tensor<6xf32>
glow.placeholder @a5 input : tensor<6xf32>
glow.placeholder @a6 input : tensor<2x3x4x2xf32>
glow.placeholder @a7 input : tensor<3xf32>
glow.placeholder @a8 input : tensor<3xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x4x3xf32>
  %a1 = glow.get @a1 : tensor<4xf32>
  %a2 = glow.get @a2 : tensor<4xf32>
  // CHECK: = glow.group_norm %a0, %a1, %a2 {groups = 2 : i64} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>
  %0 = glow.group_norm %a0, %a1, %a2 {groups = 2 : i64} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>
  %a3 = glow.get @a3 : tensor<1x6x2x2xf32>
  %a4 = glow.get @a4 : tensor<6xf32>
  %a5 = glow.get @a5 : tensor<6xf32>
  // CHECK: = glow.group_norm %a3, %a4, %a5 {epsilon = 1.000000e-01 : f64, groups = 3 : i64} : (tensor<1x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6x2x2xf32>
  %1 = glow.group_norm %a3, %a4, %a5 {epsilon = 1.000000e-01 : f64, groups = 3 : i64} : (tensor<1x6x2x2xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<1x6x2x2xf32>
  %a6 = glow.get @a6 : tensor<2x3x4x2xf32>
  %a7 = glow.get @a7 : tensor<3xf32>
  %a8 = glow.get @a8 : tensor<3xf32>
  // CHECK: = glow.instance_norm %a6, %a7, %a8 : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x2xf32>
  %2 = glow.instance_norm %a6, %a7, %a8 : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x2xf32>
}

// -----

// expected-error@unknown {{glow.group_norm: 4 channels in 3 groups}}
// CHECK: 4 channels in 3 groups
glow.placeholder @a0 input : tensor<2x4x3xf32>
glow.placeholder @a1 input : tensor<4xf32>
glow.placeholder @a2 input : tensor<4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x4x3xf32>
  %a1 = glow.get @a1 : tensor<4xf32>
  %a2 = glow.get @a2 : tensor<4xf32>
  %0 = glow.group_norm %a0, %a1, %a2 {groups = 3 : i64} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>
}
