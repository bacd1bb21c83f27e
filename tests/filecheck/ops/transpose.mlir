// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Axis i of the result is axis permutation[i] of the operand.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @transpose {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r0 = glow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
}

// -----

// expected-error@unknown {{glow.transpose: permutation [1, 1] does not order the axes of tensor<2x3xf32>}}
// CHECK: glow.transpose: permutation [1, 1] does not order the axes of tensor<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.transpose %x {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
}

// -----

// expected-error@unknown {{glow.transpose: permutation [1] does not order the axes of tensor<2x3xf32>}}
// CHECK: permutation [1] does not order the axes
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.transpose %x {permutation = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
}

// -----

// expected-error@unknown {{Expected attribute i64 but got f64}}
// CHECK: Expected attribute i64 but got f64
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.transpose %x {permutation = array<f64: 1.0, 0.0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
}
