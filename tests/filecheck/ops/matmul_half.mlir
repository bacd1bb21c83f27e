// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<3x20xf32>
glow.placeholder @w input : tensor<7x20xbf16>
glow.func @main {
  %x = glow.get @x : tensor<3x20xf32>
  %w = glow.get @w : tensor<7x20xbf16>
  // CHECK: = glow.matmul_half %x, %w : (tensor<3x20xf32>, tensor<7x20xbf16>) -> tensor<3x7xf32>
  %0 = glow.matmul_half %x, %w : (tensor<3x20xf32>, tensor<7x20xbf16>) -> tensor<3x7xf32>
}

// -----

// CHECK: glow.matmul_half: tensor<3x20xf32> by rows of tensor<20x7xf16>
// expected-error@unknown {{glow.matmul_half: tensor<3x20xf32> by rows of tensor<20x7xf16>}}
glow.placeholder @x input : tensor<3x20xf32>
glow.placeholder @w input : tensor<20x7xf16>
glow.func @main {
  %x = glow.get @x : tensor<3x20xf32>
  %w = glow.get @w : tensor<20x7xf16>
  %0 = glow.matmul_half %x, %w : (tensor<3x20xf32>, tensor<20x7xf16>) -> tensor<3x7xf32>
}

// -----

// expected-error@unknown {{glow.matmul_half: tensor<3x20xf32> by tensor<7x20xf32>, expected f32 by f16 or bf16}}
// CHECK: glow.matmul_half: tensor<3x20xf32> by tensor<7x20xf32>, expected f32 by f16 or bf16
glow.placeholder @x input : tensor<3x20xf32>
glow.placeholder @w input : tensor<7x20xf32>
glow.func @main {
  %x = glow.get @x : tensor<3x20xf32>
  %w = glow.get @w : tensor<7x20xf32>
  %0 = glow.matmul_half %x, %w : (tensor<3x20xf32>, tensor<7x20xf32>) -> tensor<3x7xf32>
}
