// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Division by the norm along an axis.

glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<2x3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  // CHECK: = glow.lp_normalize %a0 {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = glow.lp_normalize %a0 {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<2x3x4xf32>
  // CHECK: = glow.lp_normalize %a1 {p = 1 : i64, axis = 0 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = glow.lp_normalize %a1 {p = 1 : i64, axis = 0 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
}

// -----

// expected-error@unknown {{glow.lp_normalize: p is 3, expected 1 or 2}}
// CHECK: p is 3, expected 1 or 2
glow.placeholder @a0 input : tensor<2x3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3x4xf32>
  %0 = glow.lp_normalize %a0 {p = 3 : i64, axis = 0 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
}
