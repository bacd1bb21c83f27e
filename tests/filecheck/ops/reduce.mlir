// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Axes go, or stay as 1.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @reduce {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r0 = glow.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r1 = glow.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_max %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r2 = glow.reduce_max %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_min %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r3 = glow.reduce_min %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_prod %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r4 = glow.reduce_prod %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_sum_square %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r5 = glow.reduce_sum_square %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_l1 %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r6 = glow.reduce_l1 %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_l2 %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r7 = glow.reduce_l2 %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_log_sum %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r8 = glow.reduce_log_sum %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_log_sum_exp %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  %r9 = glow.reduce_log_sum_exp %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  // CHECK: = glow.reduce_sum %x {keepdims = true, axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<1x1xf32>
  %r10 = glow.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = true} : (tensor<2x3xf32>) -> tensor<1x1xf32>
}

// -----

// expected-error@unknown {{glow.reduce_sum: axis 2 is outside a tensor of rank 2}}
// CHECK: glow.reduce_sum: axis 2 is outside a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.reduce_sum %x {axes = array<i64: 2>} : (tensor<2x3xf32>) -> tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.reduce_max: axes [1, 1] repeat}}
// CHECK: glow.reduce_max: axes [1, 1] repeat
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.reduce_max %x {axes = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.reduce_l2: result type is tensor<2x3xf32>, operands give tensor<2xf32>}}
// CHECK: glow.reduce_l2: result type is tensor<2x3xf32>, operands give tensor<2xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.reduce_l2 %x {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
