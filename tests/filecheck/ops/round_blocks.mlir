// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<3x64xf32>
glow.func @main {
  %x = glow.get @x : tensor<3x64xf32>
  // CHECK: = glow.round_blocks %x {block = 32 : i64} : (tensor<3x64xf32>) -> tensor<3x64xf32>
  %0 = glow.round_blocks %x {block = 32 : i64} : (tensor<3x64xf32>) -> tensor<3x64xf32>
}

// -----

// expected-error@unknown {{glow.round_blocks: tensor<3x64xf32> in blocks of 48}}
// CHECK: glow.round_blocks: tensor<3x64xf32> in blocks of 48
glow.placeholder @x input : tensor<3x64xf32>
glow.func @main {
  %x = glow.get @x : tensor<3x64xf32>
  %0 = glow.round_blocks %x {block = 48 : i64} : (tensor<3x64xf32>) -> tensor<3x64xf32>
}

// -----

// expected-error@unknown {{glow.round_blocks: tensor<64xf64>, expected elements of f32}}
// CHECK: glow.round_blocks: tensor<64xf64>, expected elements of f32
glow.placeholder @x input : tensor<64xf64>
glow.func @main {
  %x = glow.get @x : tensor<64xf64>
  %0 = glow.round_blocks %x {block = 32 : i64} : (tensor<64xf64>) -> tensor<64xf64>
}
