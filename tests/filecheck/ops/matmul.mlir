// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Products of matrices; of stacks of matrices that broadcast.

glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<4x5xf32>
glow.placeholder @a2 input : tensor<1x7xf32>
glow.placeholder @a3 input : tensor<7x1xf32>
glow.placeholder @a4 input : tensor<2x3x4xf32>
glow.placeholder @a5 input : tensor<2x4x2xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<4x5xf32>
  // CHECK: = glow.matmul %a0, %a1 : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %0 = glow.matmul %a0, %a1 : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %a2 = glow.get @a2 : tensor<1x7xf32>
  %a3 = glow.get @a3 : tensor<7x1xf32>
  // CHECK: = glow.matmul %a2, %a3 : (tensor<1x7xf32>, tensor<7x1xf32>) -> tensor<1x1xf32>
  %1 = glow.matmul %a2, %a3 : (tensor<1x7xf32>, tensor<7x1xf32>) -> tensor<1x1xf32>
  %a4 = glow.get @a4 : tensor<2x3x4xf32>
  %a5 = glow.get @a5 : tensor<2x4x2xf32>
  // CHECK: = glow.batch_matmul %a4, %a5 : (tensor<2x3x4xf32>, tensor<2x4x2xf32>) -> tensor<2x3x2xf32>
  %2 = glow.batch_matmul %a4, %a5 : (tensor<2x3x4xf32>, tensor<2x4x2xf32>) -> tensor<2x3x2xf32>
}

// -----

// expected-error@unknown {{glow.matmul: 4 columns of tensor<3x4xf32>, 5 rows of tensor<5x5xf32>}}
// CHECK: 4 columns of tensor<3x4xf32>, 5 rows of tensor<5x5xf32>
glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<5x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %a1 = glow.get @a1 : tensor<5x5xf32>
  %0 = glow.matmul %a0, %a1 : (tensor<3x4xf32>, tensor<5x5xf32>) -> tensor<3x5xf32>
}
