// RUN: glow-opt %s -p 'glow-simplify{only=casts}' | filecheck %s

glow.placeholder @x input : tensor<4xf16>
glow.placeholder @w input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf16>
glow.placeholder @z output : tensor<4xf32>

// Widening and back is nothing.
// CHECK-LABEL: glow.func @there_and_back
glow.func @there_and_back {
  // CHECK-NEXT: %x = glow.get @x
  %x = glow.get @x : tensor<4xf16>
  %a = glow.cast %x : (tensor<4xf16>) -> tensor<4xf32>
  %b = glow.cast %a : (tensor<4xf32>) -> tensor<4xf16>
  // CHECK-NEXT: glow.save %x to @y
  glow.save %b to @y : tensor<4xf16>
}

// Narrowing rounds.
// CHECK-LABEL: glow.func @keeps_rounding
glow.func @keeps_rounding {
  %x = glow.get @w : tensor<4xf32>
  // CHECK: glow.cast
  // CHECK-NEXT: glow.cast
  %a = glow.cast %x : (tensor<4xf32>) -> tensor<4xf16>
  %b = glow.cast %a : (tensor<4xf16>) -> tensor<4xf32>
  glow.save %b to @z : tensor<4xf32>
}
