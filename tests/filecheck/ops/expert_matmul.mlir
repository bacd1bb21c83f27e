// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<3x20xf32>
glow.placeholder @w input : tensor<5x7x20xbf16>
glow.placeholder @e input : tensor<3xi64>
glow.func @main {
  %x = glow.get @x : tensor<3x20xf32>
  %w = glow.get @w : tensor<5x7x20xbf16>
  %e = glow.get @e : tensor<3xi64>
  // CHECK: = glow.expert_matmul %x, %w, %e : (tensor<3x20xf32>, tensor<5x7x20xbf16>, tensor<3xi64>) -> tensor<3x7xf32>
  %0 = glow.expert_matmul %x, %w, %e : (tensor<3x20xf32>, tensor<5x7x20xbf16>, tensor<3xi64>) -> tensor<3x7xf32>
}

// -----

// CHECK: glow.expert_matmul: tensor<3x20xf32> by rows of tensor<5x20x7xf32>; these numbers must be equal
// expected-error@unknown {{glow.expert_matmul: tensor<3x20xf32> by rows of tensor<5x20x7xf32>; these numbers must be equal}}
glow.placeholder @x input : tensor<3x20xf32>
glow.placeholder @w input : tensor<5x20x7xf32>
glow.placeholder @e input : tensor<3xi64>
glow.func @main {
  %x = glow.get @x : tensor<3x20xf32>
  %w = glow.get @w : tensor<5x20x7xf32>
  %e = glow.get @e : tensor<3xi64>
  %0 = glow.expert_matmul %x, %w, %e : (tensor<3x20xf32>, tensor<5x20x7xf32>, tensor<3xi64>) -> tensor<3x20xf32>
}

// -----

// CHECK: glow.expert_matmul: experts are tensor<2xi64>; give one i64 number per row
// expected-error@unknown {{glow.expert_matmul: experts are tensor<2xi64>; give one i64 number per row}}
glow.placeholder @x input : tensor<3x20xf32>
glow.placeholder @w input : tensor<5x7x20xf32>
glow.placeholder @e input : tensor<2xi64>
glow.func @main {
  %x = glow.get @x : tensor<3x20xf32>
  %w = glow.get @w : tensor<5x7x20xf32>
  %e = glow.get @e : tensor<2xi64>
  %0 = glow.expert_matmul %x, %w, %e : (tensor<3x20xf32>, tensor<5x7x20xf32>, tensor<2xi64>) -> tensor<3x7xf32>
}
