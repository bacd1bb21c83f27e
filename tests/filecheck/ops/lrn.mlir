// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Across channels.

glow.placeholder @a0 input : tensor<2x5x3x2xf32>
glow.placeholder @a1 input : tensor<1x6x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x5x3x2xf32>
  // CHECK: = glow.lrn %a0 {alpha = 5.000000e-01 : f64, size = 3 : i64} : (tensor<2x5x3x2xf32>) -> tensor<2x5x3x2xf32>
  %0 = glow.lrn %a0 {alpha = 5.000000e-01 : f64, size = 3 : i64} : (tensor<2x5x3x2xf32>) -> tensor<2x5x3x2xf32>
  %a1 = glow.get @a1 : tensor<1x6x4xf32>
  // CHECK: = glow.lrn %a1 {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64, bias = 2.000000e+00 : f64, size = 4 : i64} : (tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  %1 = glow.lrn %a1 {alpha = 2.000000e-01 : f64, beta = 5.000000e-01 : f64, bias = 2.000000e+00 : f64, size = 4 : i64} : (tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
}

// -----

// expected-error@unknown {{glow.lrn: size is 0, expected at least 1}}
// CHECK: size is 0, expected at least 1
glow.placeholder @a0 input : tensor<2x5x3x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x5x3x2xf32>
  %0 = glow.lrn %a0 {alpha = 5.000000e-01 : f64, size = 0 : i64} : (tensor<2x5x3x2xf32>) -> tensor<2x5x3x2xf32>
}
