// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<2x8x1xf32>
glow.placeholder @z input : tensor<2x5x2xf32>
glow.func @dft {
  %x = glow.get @x : tensor<2x8x1xf32>
  %z = glow.get @z : tensor<2x5x2xf32>
  // CHECK: = glow.dft %x {axis = 1 : i64, length = 8 : i64} : (tensor<2x8x1xf32>) -> tensor<2x8x2xf32>
  %r0 = glow.dft %x {axis = 1 : i64, length = 8 : i64} : (tensor<2x8x1xf32>) -> tensor<2x8x2xf32>
  // CHECK: : (tensor<2x8x1xf32>) -> tensor<2x5x2xf32>
  %r1 = glow.dft %x {axis = 1 : i64, length = 8 : i64, onesided = true} : (tensor<2x8x1xf32>) -> tensor<2x5x2xf32>
  // CHECK: : (tensor<2x5x2xf32>) -> tensor<2x8x1xf32>
  %r2 = glow.dft %z {axis = 1 : i64, length = 8 : i64, inverse = true, onesided = true} : (tensor<2x5x2xf32>) -> tensor<2x8x1xf32>
}

// -----

// expected-error@unknown {{glow.dft: the last axis is 3, expected 1 (real) or 2 (complex)}}
// CHECK: glow.dft: the last axis is 3, expected 1 (real) or 2 (complex)
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.dft %x {axis = 0 : i64, length = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x2xf32>
}

// -----

// expected-error@unknown {{glow.dft: onesided is for real signals only}}
// CHECK: glow.dft: onesided is for real signals only
glow.placeholder @x input : tensor<4x2xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<4x2xf32>
  %r0 = glow.dft %x {axis = 0 : i64, length = 4 : i64, onesided = true} : (tensor<4x2xf32>) -> tensor<3x2xf32>
}
