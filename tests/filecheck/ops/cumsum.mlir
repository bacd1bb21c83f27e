// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Flags print where they are on.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @cumsum {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.cumsum %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.cumsum %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.cumsum %x {exclusive = true, reverse = true, axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.cumsum %x {axis = 0 : i64, exclusive = true, reverse = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.cumsum: axis 2 is outside a tensor of rank 2}}
// CHECK: glow.cumsum: axis 2 is outside a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.cumsum %x {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
