// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The result type is part of the operator.

glow.placeholder @a input : tensor<3x1xf32>
glow.func @expand {
  %a = glow.get @a : tensor<3x1xf32>
  // CHECK: = glow.expand %a : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %r0 = glow.expand %a : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
}

// -----

// expected-error@unknown {{glow.expand: tensor<3x2xf32> does not broadcast to tensor<2x3x1xf32>}}
// CHECK: glow.expand: tensor<3x2xf32> does not broadcast to tensor<2x3x1xf32>
glow.placeholder @a input : tensor<3x2xf32>
glow.func @error0 {
  %a = glow.get @a : tensor<3x2xf32>
  %r0 = glow.expand %a : (tensor<3x2xf32>) -> tensor<2x3x1xf32>
}

// -----

// expected-error@unknown {{shapes 3 and 2 do not broadcast}}
// CHECK: shapes 3 and 2 do not broadcast
glow.placeholder @a input : tensor<3xf32>
glow.func @error1 {
  %a = glow.get @a : tensor<3xf32>
  %r0 = glow.expand %a : (tensor<3xf32>) -> tensor<2xf32>
}
