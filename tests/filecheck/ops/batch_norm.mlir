// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// One number a channel; statistics are given, or are the batch's.

glow.placeholder @a0 input : tensor<2x3x4x2xf32>
glow.placeholder @a1 input : tensor<3xf32>
glow.placeholder @a2 input : tensor<3xf32>
glow.placeholder @a3 input : tensor<3xf32>
glow.placeholder @a4 input : tensor<3xf32>
glow.placeholder @a5 input : tensor<2x4x3xf32>
glow.placeholder @a6 input : tensor<3xf32>
glow.placeholder @a7 input : tensor<3xf32>
glow.placeholder @a8 input : tensor<3xf32>
glow.placeholder @a9 input : tensor<3xf32>
glow.placeholder @a10 input : tensor<2x3x4x2xf32>
glow.placeholder @a11 input : tensor<3xf32>
glow.placeholder @a12 input : tensor<3xf32>
glow.placeholder @a13 input : tensor<2x3x4xf32>
glow.placeholder @a14 input : tensor<3xf32>
glow.placeholder @a15 input : tensor<3xf32>
glow.placeholder @a16 input : tensor<3xf32>
glow.placeholder @a17 input : tensor<2x3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3x4x2xf32>
  %a1 = glow.get @a1 : tensor<3xf32>
  %a2 = glow.get @a2 : tensor<3xf32>
  %a3 = glow.get @a3 : tensor<3xf32>
  %a4 = glow.get @a4 : tensor<3xf32>
  // CHECK: = glow.batch_norm %a0, %a1, %a2, %a3, %a4 : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x2xf32>
  %0 = glow.batch_norm %a0, %a1, %a2, %a3, %a4 : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x2xf32>
  %a5 = glow.get @a5 : tensor<2x4x3xf32>
  %a6 = glow.get @a6 : tensor<3xf32>
  %a7 = glow.get @a7 : tensor<3xf32>
  %a8 = glow.get @a8 : tensor<3xf32>
  %a9 = glow.get @a9 : tensor<3xf32>
  // CHECK: = glow.batch_norm %a5, %a6, %a7, %a8, %a9 {epsilon = 1.000000e-01 : f64, layout = "NHWC"} : (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
  %1 = glow.batch_norm %a5, %a6, %a7, %a8, %a9 {epsilon = 1.000000e-01 : f64, layout = "NHWC"} : (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
  %a10 = glow.get @a10 : tensor<2x3x4x2xf32>
  %a11 = glow.get @a11 : tensor<3xf32>
  %a12 = glow.get @a12 : tensor<3xf32>
  // CHECK: = glow.batch_norm_train %a10, %a11, %a12 : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %2, %3, %4 = glow.batch_norm_train %a10, %a11, %a12 : (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %a13 = glow.get @a13 : tensor<2x3x4xf32>
  %a14 = glow.get @a14 : tensor<3xf32>
  %a15 = glow.get @a15 : tensor<3xf32>
  %a16 = glow.get @a16 : tensor<3xf32>
  %a17 = glow.get @a17 : tensor<2x3x4xf32>
  // CHECK: = glow.batch_norm_backward %a13, %a14, %a15, %a16, %a17 : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %5, %6, %7 = glow.batch_norm_backward %a13, %a14, %a15, %a16, %a17 : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
}

// -----

// expected-error@unknown {{glow.batch_norm: tensor<4xf32> where the channels need tensor<3xf32>}}
// CHECK: tensor<4xf32> where the channels need tensor<3xf32>
glow.placeholder @a0 input : tensor<2x3x4x2xf32>
glow.placeholder @a1 input : tensor<4xf32>
glow.placeholder @a2 input : tensor<3xf32>
glow.placeholder @a3 input : tensor<3xf32>
glow.placeholder @a4 input : tensor<3xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3x4x2xf32>
  %a1 = glow.get @a1 : tensor<4xf32>
  %a2 = glow.get @a2 : tensor<3xf32>
  %a3 = glow.get @a3 : tensor<3xf32>
  %a4 = glow.get @a4 : tensor<3xf32>
  %0 = glow.batch_norm %a0, %a1, %a2, %a3, %a4 : (tensor<2x3x4x2xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x2xf32>
}
