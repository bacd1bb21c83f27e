// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Both directions, both orders of channels.

glow.placeholder @x input : tensor<1x8x2x4xf32>
glow.func @depth_to_space {
  %x = glow.get @x : tensor<1x8x2x4xf32>
  // CHECK: = glow.depth_to_space %x {block = 2 : i64} : (tensor<1x8x2x4xf32>) -> tensor<1x2x4x8xf32>
  %r0 = glow.depth_to_space %x {block = 2 : i64} : (tensor<1x8x2x4xf32>) -> tensor<1x2x4x8xf32>
  // CHECK: = glow.space_to_depth %x {mode = "CRD", block = 2 : i64} : (tensor<1x8x2x4xf32>) -> tensor<1x32x1x2xf32>
  %r1 = glow.space_to_depth %x {block = 2 : i64, mode = "CRD"} : (tensor<1x8x2x4xf32>) -> tensor<1x32x1x2xf32>
}

// -----

// expected-error@unknown {{glow.depth_to_space: 6 channels do not make blocks of 2x2}}
// CHECK: glow.depth_to_space: 6 channels do not make blocks of 2x2
glow.placeholder @x input : tensor<1x6x2x4xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<1x6x2x4xf32>
  %r0 = glow.depth_to_space %x {block = 2 : i64} : (tensor<1x6x2x4xf32>) -> tensor<1x2x4x8xf32>
}

// -----

// expected-error@unknown {{glow.space_to_depth: 3x4 does not divide into 2x2}}
// CHECK: glow.space_to_depth: 3x4 does not divide into 2x2
glow.placeholder @x input : tensor<1x6x3x4xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<1x6x3x4xf32>
  %r0 = glow.space_to_depth %x {block = 2 : i64} : (tensor<1x6x3x4xf32>) -> tensor<1x24x1x2xf32>
}

// -----

// expected-error@unknown {{glow.space_to_depth: a block of 0}}
// CHECK: glow.space_to_depth: a block of 0
glow.placeholder @x input : tensor<1x6x3x4xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<1x6x3x4xf32>
  %r0 = glow.space_to_depth %x {block = 0 : i64} : (tensor<1x6x3x4xf32>) -> tensor<1x24x1x2xf32>
}

// -----

// expected-error@unknown {{glow.depth_to_space: expected images (NCHW), got tensor<6xf32>}}
// CHECK: glow.depth_to_space: expected images (NCHW), got tensor<6xf32>
glow.placeholder @x input : tensor<6xf32>
glow.func @error3 {
  %x = glow.get @x : tensor<6xf32>
  %r0 = glow.depth_to_space %x {block = 1 : i64} : (tensor<6xf32>) -> tensor<6xf32>
}
