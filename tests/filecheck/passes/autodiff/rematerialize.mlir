// RUN: glow-opt %s --split-input-file -p "glow-rematerialize{budget=100}" | filecheck %s

glow.placeholder @x input : tensor<16xf32>
glow.placeholder @y output : tensor<16xf32>

// %a waits over the peak for its second use: it is computed again there.
// CHECK-LABEL: glow.func @waits
// CHECK:         [[X:%.*]] = glow.get @x
// CHECK-NEXT:    glow.exp [[X]]
// CHECK:         glow.mul
// CHECK:         [[A:%.*]] = glow.exp [[X]]
// CHECK-NEXT:    [[Y:%.*]] = glow.add {{%.*}}, [[A]]
// CHECK-NEXT:    glow.save [[Y]]
glow.func @waits {
  %x = glow.get @x : tensor<16xf32>
  %a = glow.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  %b = glow.sin %a : (tensor<16xf32>) -> tensor<16xf32>
  %c = glow.cos %b : (tensor<16xf32>) -> tensor<16xf32>
  %d = glow.mul %b, %c : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %e = glow.add %d, %a : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  glow.save %e to @y : tensor<16xf32>
}

// -----

glow.placeholder @x input : tensor<4x4xf32>
glow.placeholder @y output : tensor<4x4xf32>

// A matrix product is not repeated.
// CHECK-LABEL: glow.func @costly
// CHECK:         glow.matmul
// CHECK-NOT:     glow.matmul
glow.func @costly {
  %x = glow.get @x : tensor<4x4xf32>
  %a = glow.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = glow.sin %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = glow.cos %b : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = glow.mul %b, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = glow.add %d, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  glow.save %e to @y : tensor<4x4xf32>
}

// -----

glow.placeholder @x input : tensor<16xf32>
glow.placeholder @y output : tensor<16xf32>

// Nothing is repeated where the budget is kept.
// CHECK-LABEL: glow.func @small
// CHECK-COUNT-1: glow.exp
// CHECK-NOT:     glow.exp
glow.func @small {
  %x = glow.get @x : tensor<16xf32>
  %a = glow.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  glow.save %a to @y : tensor<16xf32>
}

// -----

glow.placeholder @w trainable : tensor<16xf32>
glow.placeholder @y output : tensor<16xf32>

// Not from a weight that has been updated meanwhile.
// CHECK-LABEL: glow.func @updated
// CHECK-COUNT-1: glow.exp
// CHECK-NOT:     glow.exp
glow.func @updated {
  %w = glow.get @w : tensor<16xf32>
  %a = glow.exp %w : (tensor<16xf32>) -> tensor<16xf32>
  %b = glow.sin %a : (tensor<16xf32>) -> tensor<16xf32>
  %c = glow.cos %b : (tensor<16xf32>) -> tensor<16xf32>
  %d = glow.mul %b, %c : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  glow.save %d to @w : tensor<16xf32>
  %e = glow.add %d, %a : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  glow.save %e to @y : tensor<16xf32>
}
