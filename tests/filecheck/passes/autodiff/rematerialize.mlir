// RUN: glow-opt %s --split-input-file -p "glow-rematerialize{budget=100}" | filecheck %s
// RUN: glow-opt %s --split-input-file -p glow-rematerialize | filecheck %s --check-prefix=OWN

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
// OWN-LABEL:   glow.func @waits
// OWN-COUNT-1:   glow.exp
// OWN-NOT:       glow.exp
// OWN:         glow.func @costly
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

// -----

glow.placeholder @x input : tensor<16xf32>
glow.placeholder @s input : tensor<4xf32>
glow.placeholder @y output : tensor<16xf32>
glow.placeholder @t output : tensor<4xf32>

// The larger of two values that wait is enough for the budget of the function.
// CHECK-LABEL: glow.func @large
// OWN-LABEL:   glow.func @large
// OWN:           [[S:%.*]] = glow.exp {{.*}} : (tensor<4xf32>)
// OWN:           glow.mul
// OWN-NEXT:      [[A:%.*]] = glow.exp {{.*}} : (tensor<16xf32>)
// OWN-NEXT:      glow.add {{%.*}}, [[A]]
// OWN:           glow.neg [[S]]
glow.func @large attributes {memory_budget = 208 : i64} {
  %x = glow.get @x : tensor<16xf32>
  %s = glow.get @s : tensor<4xf32>
  %u = glow.exp %s : (tensor<4xf32>) -> tensor<4xf32>
  %a = glow.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  %b = glow.sin %x : (tensor<16xf32>) -> tensor<16xf32>
  %c = glow.cos %b : (tensor<16xf32>) -> tensor<16xf32>
  %d = glow.mul %b, %c : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %e = glow.add %d, %a : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  glow.save %e to @y : tensor<16xf32>
  %v = glow.neg %u : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %v to @t : tensor<4xf32>
}

// -----

glow.placeholder @x input : tensor<4x4xf32>
glow.placeholder @y output : tensor<4x4xf32>

// As cheap as reading: a softmax.
// CHECK-LABEL: glow.func @softmax
// CHECK-COUNT-2: glow.softmax
glow.func @softmax {
  %x = glow.get @x : tensor<4x4xf32>
  %a = glow.softmax %x {axis = 1} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = glow.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = glow.matmul %b, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = glow.sub %b, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = glow.add %d, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  glow.save %e to @y : tensor<4x4xf32>
}

// -----

// In a function of MLIR, too: from a parameter that is read later as well, not from one that has ended; what
// is no node stays.
// CHECK-LABEL: func.func @body
// CHECK:         glow.exp %x
// CHECK:         glow.exp %z
// CHECK:         arith.negf
// CHECK:         glow.mul
// CHECK-NOT:     glow.exp %z
// CHECK-NOT:     arith.negf
// CHECK:         glow.exp %x
// CHECK-NOT:     glow.exp %z
// CHECK-NOT:     arith.negf
func.func @body(%x : tensor<16xf32>, %z : tensor<16xf32>) -> tensor<16xf32> {
  %a = glow.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  %k = glow.exp %z : (tensor<16xf32>) -> tensor<16xf32>
  %n = arith.negf %x : tensor<16xf32>
  %b = glow.sin %x : (tensor<16xf32>) -> tensor<16xf32>
  %c = glow.cos %b : (tensor<16xf32>) -> tensor<16xf32>
  %d = glow.mul %b, %c : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %e = glow.add %d, %a : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %f = glow.add %e, %k : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %g = glow.add %f, %n : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %h = glow.add %g, %x : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %h : tensor<16xf32>
}
