// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Means, sums, or one loss each.

glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<3xi64>
glow.placeholder @a2 input : tensor<3x4xf32>
glow.placeholder @a3 input : tensor<3xi64>
glow.placeholder @a4 input : tensor<4xf32>
glow.placeholder @a5 input : tensor<3x4xf32>
glow.placeholder @a6 input : tensor<3x4xf32>
glow.placeholder @a7 input : tensor<3x4xf32>
glow.placeholder @a8 input : tensor<3x4xf32>
glow.placeholder @a9 input : tensor<3x4xf32>
glow.placeholder @a10 input : tensor<3x4xf32>
glow.placeholder @a11 input : tensor<3x4xf32>
glow.placeholder @a12 input : tensor<3x4xf32>
glow.placeholder @a13 input : tensor<3x4xf32>
glow.placeholder @a14 input : tensor<3x4xf32>
glow.placeholder @a15 input : tensor<3x4xf32>
glow.placeholder @a16 input : tensor<3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<3xi64>
  // CHECK: = glow.cross_entropy %a0, %a1 : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<f32>
  %0 = glow.cross_entropy %a0, %a1 : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<f32>
  %a2 = glow.get @a2 : tensor<3x4xf32>
  %a3 = glow.get @a3 : tensor<3xi64>
  %a4 = glow.get @a4 : tensor<4xf32>
  // CHECK: = glow.cross_entropy %a2, %a3, %a4 {label_smoothing = 1.000000e-01 : f64} : (tensor<3x4xf32>, tensor<3xi64>, tensor<4xf32>) -> tensor<f32>
  %1 = glow.cross_entropy %a2, %a3, %a4 {label_smoothing = 1.000000e-01 : f64} : (tensor<3x4xf32>, tensor<3xi64>, tensor<4xf32>) -> tensor<f32>
  %a5 = glow.get @a5 : tensor<3x4xf32>
  %a6 = glow.get @a6 : tensor<3x4xf32>
  // CHECK: = glow.sigmoid_cross_entropy %a5, %a6 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %2 = glow.sigmoid_cross_entropy %a5, %a6 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %a7 = glow.get @a7 : tensor<3x4xf32>
  %a8 = glow.get @a8 : tensor<3x4xf32>
  // CHECK: = glow.binary_cross_entropy %a7, %a8 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %3 = glow.binary_cross_entropy %a7, %a8 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %a9 = glow.get @a9 : tensor<3x4xf32>
  %a10 = glow.get @a10 : tensor<3x4xf32>
  // CHECK: = glow.mean_squared_error %a9, %a10 {reduction = "none"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = glow.mean_squared_error %a9, %a10 {reduction = "none"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %a11 = glow.get @a11 : tensor<3x4xf32>
  %a12 = glow.get @a12 : tensor<3x4xf32>
  // CHECK: = glow.l1_loss %a11, %a12 {reduction = "sum"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %5 = glow.l1_loss %a11, %a12 {reduction = "sum"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %a13 = glow.get @a13 : tensor<3x4xf32>
  %a14 = glow.get @a14 : tensor<3x4xf32>
  // CHECK: = glow.huber_loss %a13, %a14 {delta = 5.000000e-01 : f64} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %6 = glow.huber_loss %a13, %a14 {delta = 5.000000e-01 : f64} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<f32>
  %a15 = glow.get @a15 : tensor<3x4xf32>
  %a16 = glow.get @a16 : tensor<3x4xf32>
  // CHECK: = glow.regression %a15, %a16 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %7 = glow.regression %a15, %a16 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
}

// -----

// expected-error@unknown {{glow.cross_entropy: label_smoothing 1.0}}
// CHECK: label_smoothing 1.0
glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<3xi64>
glow.placeholder @a2 input : tensor<4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<3xi64>
  %a2 = glow.get @a2 : tensor<4xf32>
  %0 = glow.cross_entropy %a0, %a1, %a2 {label_smoothing = 1.000000e+00 : f64} : (tensor<3x4xf32>, tensor<3xi64>, tensor<4xf32>) -> tensor<f32>
}
