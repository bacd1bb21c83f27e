// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A block of the first operand is replaced by the second.

glow.placeholder @a input : tensor<4x6xf32>
glow.placeholder @b input : tensor<2x3xf32>
glow.func @insert {
  %a = glow.get @a : tensor<4x6xf32>
  %b = glow.get @b : tensor<2x3xf32>
  // CHECK: = glow.insert %a, %b {starts = array<i64: 1, 0>} : (tensor<4x6xf32>, tensor<2x3xf32>) -> tensor<4x6xf32>
  %r0 = glow.insert %a, %b {starts = array<i64: 1, 0>} : (tensor<4x6xf32>, tensor<2x3xf32>) -> tensor<4x6xf32>
  // CHECK: = glow.insert %a, %b {steps = array<i64: 2, 2>, starts = array<i64: 1, 0>} : (tensor<4x6xf32>, tensor<2x3xf32>) -> tensor<4x6xf32>
  %r1 = glow.insert %a, %b {starts = array<i64: 1, 0>, steps = array<i64: 2, 2>} : (tensor<4x6xf32>, tensor<2x3xf32>) -> tensor<4x6xf32>
}

// -----

// expected-error@unknown {{glow.insert: tensor<2x3xf32> at [3, 0] by [1, 1] leaves tensor<4x6xf32>}}
// CHECK: glow.insert: tensor<2x3xf32> at [3, 0] by [1, 1] leaves tensor<4x6xf32>
glow.placeholder @a input : tensor<4x6xf32>
glow.placeholder @b input : tensor<2x3xf32>
glow.func @error0 {
  %a = glow.get @a : tensor<4x6xf32>
  %b = glow.get @b : tensor<2x3xf32>
  %r0 = glow.insert %a, %b {starts = array<i64: 3, 0>} : (tensor<4x6xf32>, tensor<2x3xf32>) -> tensor<4x6xf32>
}

// -----

// expected-error@unknown {{glow.insert: tensor<2x3xf64> does not go into tensor<4x6xf32>}}
// CHECK: glow.insert: tensor<2x3xf64> does not go into tensor<4x6xf32>
glow.placeholder @a input : tensor<4x6xf32>
glow.placeholder @b input : tensor<2x3xf64>
glow.func @error1 {
  %a = glow.get @a : tensor<4x6xf32>
  %b = glow.get @b : tensor<2x3xf64>
  %r0 = glow.insert %a, %b {starts = array<i64: 0, 0>} : (tensor<4x6xf32>, tensor<2x3xf64>) -> tensor<4x6xf32>
}
