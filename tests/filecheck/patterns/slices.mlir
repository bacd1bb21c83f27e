// RUN: glow-opt %s -p 'glow-simplify{only=slices}' | filecheck %s

glow.placeholder @x input : tensor<9xf32>
glow.placeholder @y output : tensor<2xf32>

// CHECK-LABEL: glow.func @merged
glow.func @merged {
  %x = glow.get @x : tensor<9xf32>
  // CHECK: glow.slice %x {starts = array<i64: 5>, ends = array<i64: 8>, steps = array<i64: 2>}
  %a = glow.slice %x {starts = array<i64: 1>, ends = array<i64: 9>, steps = array<i64: 2>} : (tensor<9xf32>) -> tensor<4xf32>
  %b = glow.slice %a {starts = array<i64: 2>, ends = array<i64: 4>, steps = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>
  glow.save %b to @y : tensor<2xf32>
}

// CHECK-LABEL: glow.func @through_concat
glow.func @through_concat {
  %x = glow.get @x : tensor<9xf32>
  %n = glow.neg %x : (tensor<9xf32>) -> tensor<9xf32>
  %c = glow.concat %n, %x {axis = 0 : i64} : (tensor<9xf32>, tensor<9xf32>) -> tensor<18xf32>
  // CHECK: glow.slice %x {starts = array<i64: 1>, ends = array<i64: 3>, steps = array<i64: 1>}
  %b = glow.slice %c {starts = array<i64: 10>, ends = array<i64: 12>, steps = array<i64: 1>} : (tensor<18xf32>) -> tensor<2xf32>
  glow.save %b to @y : tensor<2xf32>
}

// The slice needs both parts.
// CHECK-LABEL: glow.func @keeps_across
glow.func @keeps_across {
  %x = glow.get @x : tensor<9xf32>
  %n = glow.neg %x : (tensor<9xf32>) -> tensor<9xf32>
  // CHECK: glow.concat
  %c = glow.concat %n, %x {axis = 0 : i64} : (tensor<9xf32>, tensor<9xf32>) -> tensor<18xf32>
  %b = glow.slice %c {starts = array<i64: 8>, ends = array<i64: 10>, steps = array<i64: 1>} : (tensor<18xf32>) -> tensor<2xf32>
  glow.save %b to @y : tensor<2xf32>
}

// Axes of size 1 need not be turned round.
// CHECK-LABEL: glow.func @flipped_ones
glow.func @flipped_ones {
  %x = glow.get @ones : tensor<1x4xf32>
  // CHECK: glow.flip %x {axes = array<i64: 1>}
  %a = glow.flip %x {axes = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  glow.save %a to @flipped : tensor<1x4xf32>
}
glow.placeholder @ones input : tensor<1x4xf32>
glow.placeholder @flipped output : tensor<1x4xf32>
