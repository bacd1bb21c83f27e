// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Copies along each axis.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @tile {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.tile %x {repeats = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<4x9xf32>
  %r0 = glow.tile %x {repeats = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<4x9xf32>
}

// -----

// expected-error@unknown {{glow.tile: repeats has 1 entries for a tensor of rank 2}}
// CHECK: glow.tile: repeats has 1 entries for a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.tile %x {repeats = array<i64: 2>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
}

// -----

// expected-error@unknown {{glow.tile: repeats [2, -1] are negative}}
// CHECK: glow.tile: repeats [2, -1] are negative
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.tile %x {repeats = array<i64: 2, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
