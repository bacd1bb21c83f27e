// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Over any axes.

glow.placeholder @a0 input : tensor<2x3x4x2xf32>
glow.placeholder @a1 input : tensor<3x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3x4x2xf32>
  // CHECK: = glow.mean_var_normalize %a0 {axes = array<i64: 0, 2, 3>} : (tensor<2x3x4x2xf32>) -> tensor<2x3x4x2xf32>
  %0 = glow.mean_var_normalize %a0 {axes = array<i64: 0, 2, 3>} : (tensor<2x3x4x2xf32>) -> tensor<2x3x4x2xf32>
  %a1 = glow.get @a1 : tensor<3x5xf32>
  // CHECK: = glow.mean_var_normalize %a1 {epsilon = 1.000000e-02 : f64, axes = array<i64: 1>} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %1 = glow.mean_var_normalize %a1 {epsilon = 1.000000e-02 : f64, axes = array<i64: 1>} : (tensor<3x5xf32>) -> tensor<3x5xf32>
}

// -----

// expected-error@unknown {{glow.mean_var_normalize: axes [0, 0, 3] repeat}}
// CHECK: axes [0, 0, 3] repeat
glow.placeholder @a0 input : tensor<2x3x4x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3x4x2xf32>
  %0 = glow.mean_var_normalize %a0 {axes = array<i64: 0, 0, 3>} : (tensor<2x3x4x2xf32>) -> tensor<2x3x4x2xf32>
}
