// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// One operand, the same type.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @relu {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.relu: result type is tensor<6xf32>, operands give tensor<2x3xf32>}}
// CHECK: glow.relu: result type is tensor<6xf32>, operands give tensor<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.relu %x : (tensor<2x3xf32>) -> tensor<6xf32>
}
