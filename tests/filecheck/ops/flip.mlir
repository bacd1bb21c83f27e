// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Any axes.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @flip {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.flip %x {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.flip %x {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.flip: axes [0, 0] repeat}}
// CHECK: glow.flip: axes [0, 0] repeat
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.flip %x {axes = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.flip: axis -1 is outside a tensor of rank 2}}
// CHECK: glow.flip: axis -1 is outside a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.flip %x {axes = array<i64: -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
