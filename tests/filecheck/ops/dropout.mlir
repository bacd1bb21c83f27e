// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The identity of inference and the random form of training.

glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<3x40xf32>
glow.placeholder @a2 input : tensor<i64>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  // CHECK: = glow.dropout %a0 {ratio = 3.000000e-01 : f64} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi1>)
  %0, %1 = glow.dropout %a0 {ratio = 3.000000e-01 : f64} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi1>)
  %a1 = glow.get @a1 : tensor<3x40xf32>
  %a2 = glow.get @a2 : tensor<i64>
  // CHECK: = glow.dropout_train %a1, %a2 {ratio = 3.000000e-01 : f64, seed = 5 : i64} : (tensor<3x40xf32>, tensor<i64>) -> (tensor<3x40xf32>, tensor<3x40xi1>)
  %2, %3 = glow.dropout_train %a1, %a2 {ratio = 3.000000e-01 : f64, seed = 5 : i64} : (tensor<3x40xf32>, tensor<i64>) -> (tensor<3x40xf32>, tensor<3x40xi1>)
}

// -----

// expected-error@unknown {{glow.dropout: ratio 1.0 is not in [0, 1)}}
// CHECK: ratio 1.0 is not in [0, 1)
glow.placeholder @a0 input : tensor<3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %0, %1 = glow.dropout %a0 {ratio = 1.000000e+00 : f64} : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi1>)
}
