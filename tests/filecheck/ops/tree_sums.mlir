// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<5x3xf32>
glow.placeholder @f input : tensor<9xi32>
glow.placeholder @s input : tensor<9xf32>
glow.placeholder @w input : tensor<9x2xf32>
glow.placeholder @r input : tensor<3xi32>
glow.func @main {
  %x = glow.get @x : tensor<5x3xf32>
  %f = glow.get @f : tensor<9xi32>
  %s = glow.get @s : tensor<9xf32>
  %w = glow.get @w : tensor<9x2xf32>
  %r = glow.get @r : tensor<3xi32>
  // CHECK: glow.tree_sums %x, %f, %s, %f, %w, %r {depth = 2 : i64} :
  %y = glow.tree_sums %x, %f, %s, %f, %w, %r {depth = 2} : (tensor<5x3xf32>, tensor<9xi32>, tensor<9xf32>, tensor<9xi32>, tensor<9x2xf32>, tensor<3xi32>) -> tensor<5x2xf32>
}

// -----

// expected-error@unknown {{glow.tree_sums: nodes (9,), (9,), (9, 2) of (8,) splits}}
glow.placeholder @x input : tensor<5x3xf32>
glow.placeholder @f input : tensor<9xi32>
glow.placeholder @s input : tensor<8xf32>
glow.placeholder @w input : tensor<9x2xf32>
glow.placeholder @r input : tensor<3xi32>
glow.func @main {
  %x = glow.get @x : tensor<5x3xf32>
  %f = glow.get @f : tensor<9xi32>
  %s = glow.get @s : tensor<8xf32>
  %w = glow.get @w : tensor<9x2xf32>
  %r = glow.get @r : tensor<3xi32>
  // CHECK: error: {{.*}}nodes (9,), (9,), (9, 2) of (8,) splits
  %y = glow.tree_sums %x, %f, %s, %f, %w, %r {depth = 2} : (tensor<5x3xf32>, tensor<9xi32>, tensor<8xf32>, tensor<9xi32>, tensor<9x2xf32>, tensor<3xi32>) -> tensor<5x2xf32>
}
