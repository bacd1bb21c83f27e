// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Comparisons give i1.

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @compare {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  // CHECK: = glow.cmp_eq %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %r0 = glow.cmp_eq %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: = glow.cmp_ne %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %r1 = glow.cmp_ne %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: = glow.cmp_lt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %r2 = glow.cmp_lt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: = glow.cmp_le %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %r3 = glow.cmp_le %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: = glow.cmp_gt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %r4 = glow.cmp_gt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK: = glow.cmp_ge %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %r5 = glow.cmp_ge %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
}

// -----

// expected-error@unknown {{glow.cmp_lt: result type is tensor<2x3xf32>, operands give tensor<2x3xi1>}}
// CHECK: glow.cmp_lt: result type is tensor<2x3xf32>, operands give tensor<2x3xi1>
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  %r0 = glow.cmp_lt %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.cmp_eq: element types f32 and i32 differ}}
// CHECK: glow.cmp_eq: element types f32 and i32 differ
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xi32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xi32>
  %r0 = glow.cmp_eq %x, %y : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<2x3xi1>
}
