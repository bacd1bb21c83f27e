// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The last two axes.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @trilu {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.trilu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.trilu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.trilu %x {upper = false, k = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.trilu %x {upper = false, k = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.trilu: expected matrices, got tensor<3xf32>}}
// CHECK: glow.trilu: expected matrices, got tensor<3xf32>
glow.placeholder @x input : tensor<3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<3xf32>
  %r0 = glow.trilu %x : (tensor<3xf32>) -> tensor<3xf32>
}
