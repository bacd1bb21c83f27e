// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A view of the operand.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @identity {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.identity %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.identity %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.identity: result type is tensor<6xf32>, operands give tensor<2x3xf32>}}
// CHECK: glow.identity: result type is tensor<6xf32>, operands give tensor<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.identity %x : (tensor<2x3xf32>) -> tensor<6xf32>
}
