// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// All three operands broadcast.

glow.placeholder @c input : tensor<2x3xi1>
glow.placeholder @a input : tensor<3xf32>
glow.placeholder @b input : tensor<f32>
glow.func @select {
  %c = glow.get @c : tensor<2x3xi1>
  %a = glow.get @a : tensor<3xf32>
  %b = glow.get @b : tensor<f32>
  // CHECK: = glow.select %c, %a, %b : (tensor<2x3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %r0 = glow.select %c, %a, %b : (tensor<2x3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.select: condition must be i1, got tensor<3xf32>}}
// CHECK: glow.select: condition must be i1, got tensor<3xf32>
glow.placeholder @a input : tensor<3xf32>
glow.placeholder @b input : tensor<f32>
glow.func @error0 {
  %a = glow.get @a : tensor<3xf32>
  %b = glow.get @b : tensor<f32>
  %r0 = glow.select %a, %a, %b : (tensor<3xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
}

// -----

// expected-error@unknown {{glow.select: tensor<3xf32> and tensor<3xi32> differ in element type}}
// CHECK: differ in element type
glow.placeholder @c input : tensor<3xi1>
glow.placeholder @a input : tensor<3xf32>
glow.placeholder @b input : tensor<3xi32>
glow.func @error1 {
  %c = glow.get @c : tensor<3xi1>
  %a = glow.get @a : tensor<3xf32>
  %b = glow.get @b : tensor<3xi32>
  %r0 = glow.select %c, %a, %b : (tensor<3xi1>, tensor<3xf32>, tensor<3xi32>) -> tensor<3xf32>
}
