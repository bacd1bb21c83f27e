// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A weight and its gradient give the next weight.

glow.placeholder @a0 input : tensor<2x3xf32>
glow.placeholder @a1 input : tensor<2x3xf32>
glow.placeholder @a2 input : tensor<f32>
glow.placeholder @a3 input : tensor<2x3xf32>
glow.placeholder @a4 input : tensor<2x3xf32>
glow.placeholder @a5 input : tensor<2x3xf32>
glow.placeholder @a6 input : tensor<f32>
glow.placeholder @a7 input : tensor<2x3xf32>
glow.placeholder @a8 input : tensor<2x3xf32>
glow.placeholder @a9 input : tensor<2x3xf32>
glow.placeholder @a10 input : tensor<2x3xf32>
glow.placeholder @a11 input : tensor<f32>
glow.placeholder @a12 input : tensor<i64>
glow.placeholder @a13 input : tensor<2x3xf32>
glow.placeholder @a14 input : tensor<2x3xf32>
glow.placeholder @a15 input : tensor<2x3xf32>
glow.placeholder @a16 input : tensor<f32>
glow.placeholder @a17 input : tensor<2x3xf32>
glow.placeholder @a18 input : tensor<2x3xf32>
glow.placeholder @a19 input : tensor<2x3xf32>
glow.placeholder @a20 input : tensor<f32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3xf32>
  %a1 = glow.get @a1 : tensor<2x3xf32>
  %a2 = glow.get @a2 : tensor<f32>
  // CHECK: = glow.sgd %a0, %a1, %a2 {weight_decay = 1.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %0 = glow.sgd %a0, %a1, %a2 {weight_decay = 1.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %a3 = glow.get @a3 : tensor<2x3xf32>
  %a4 = glow.get @a4 : tensor<2x3xf32>
  %a5 = glow.get @a5 : tensor<2x3xf32>
  %a6 = glow.get @a6 : tensor<f32>
  // CHECK: = glow.momentum %a3, %a4, %a5, %a6 {nesterov = true} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %1, %2 = glow.momentum %a3, %a4, %a5, %a6 {nesterov = true} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %a7 = glow.get @a7 : tensor<2x3xf32>
  %a8 = glow.get @a8 : tensor<2x3xf32>
  %a9 = glow.get @a9 : tensor<2x3xf32>
  %a10 = glow.get @a10 : tensor<2x3xf32>
  %a11 = glow.get @a11 : tensor<f32>
  %a12 = glow.get @a12 : tensor<i64>
  // CHECK: = glow.adam %a7, %a8, %a9, %a10, %a11, %a12 {weight_decay = 1.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %3, %4, %5 = glow.adam %a7, %a8, %a9, %a10, %a11, %a12 {weight_decay = 1.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %a13 = glow.get @a13 : tensor<2x3xf32>
  %a14 = glow.get @a14 : tensor<2x3xf32>
  %a15 = glow.get @a15 : tensor<2x3xf32>
  %a16 = glow.get @a16 : tensor<f32>
  // CHECK: = glow.rmsprop %a13, %a14, %a15, %a16 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0>} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %6, %7 = glow.rmsprop %a13, %a14, %a15, %a16 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0>} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %a17 = glow.get @a17 : tensor<2x3xf32>
  %a18 = glow.get @a18 : tensor<2x3xf32>
  %a19 = glow.get @a19 : tensor<2x3xf32>
  %a20 = glow.get @a20 : tensor<f32>
  // CHECK: = glow.adagrad %a17, %a18, %a19, %a20 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %8, %9 = glow.adagrad %a17, %a18, %a19, %a20 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
}

// -----

// expected-error@unknown {{glow.sgd: lr is tensor<2xf32>, expected tensor<f32>}}
// CHECK: lr is tensor<2xf32>, expected tensor<f32>
glow.placeholder @a0 input : tensor<2x3xf32>
glow.placeholder @a1 input : tensor<2x3xf32>
glow.placeholder @a2 input : tensor<2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<2x3xf32>
  %a1 = glow.get @a1 : tensor<2x3xf32>
  %a2 = glow.get @a2 : tensor<2xf32>
  %0 = glow.sgd %a0, %a1, %a2 {weight_decay = 1.000000e-01 : f64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
}
