// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A product and a bias for each column.

glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<4x5xf32>
glow.placeholder @a2 input : tensor<5xf32>
glow.placeholder @a3 input : tensor<2x6xf32>
glow.placeholder @a4 input : tensor<6x3xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<4x5xf32>
  %a2 = glow.get @a2 : tensor<5xf32>
  // CHECK: = glow.fully_connected %a0, %a1, %a2 : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  %0 = glow.fully_connected %a0, %a1, %a2 : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  %a3 = glow.get @a3 : tensor<2x6xf32>
  %a4 = glow.get @a4 : tensor<6x3xf32>
  // CHECK: = glow.fully_connected %a3, %a4 : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
  %1 = glow.fully_connected %a3, %a4 : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.fully_connected: bias is tensor<4xf32> for 5 columns}}
// CHECK: bias is tensor<4xf32> for 5 columns
glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<4x5xf32>
glow.placeholder @a2 input : tensor<4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<4x5xf32>
  %a2 = glow.get @a2 : tensor<4xf32>
  %0 = glow.fully_connected %a0, %a1, %a2 : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<4xf32>) -> tensor<3x5xf32>
}
