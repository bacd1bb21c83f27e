// RUN: glow-opt %s -p glow-dce | filecheck %s

// CHECK: glow.constant @used
// CHECK-NOT: glow.constant @unused
glow.constant @used = dense<1.0> : tensor<4xf32>
glow.constant @unused = dense<2.0> : tensor<4xf32>
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  // CHECK-NEXT: %x = glow.get @x
  // CHECK-NEXT: glow.save %x to @y
  %x = glow.get @x : tensor<4xf32>
  %w = glow.get @unused : tensor<4xf32>
  %a = glow.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = glow.relu %a : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %x to @y : tensor<4xf32>
}

// A constant is kept by any function that reads it.
// CHECK-LABEL: glow.func @other
glow.func @other {
  // CHECK-NEXT: glow.get @used
  %w = glow.get @used : tensor<4xf32>
  glow.save %w to @y : tensor<4xf32>
}
