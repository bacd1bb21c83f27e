// RUN: glow-opt %s -p glow-instrument | filecheck %s

// Inputs and results of nodes are saved; constants and integers are not.
// CHECK: glow.placeholder @profile.x output : tensor<4xf32>
// CHECK: glow.placeholder @profile.a output : tensor<4xf32>
// CHECK-NOT: @profile.w
// CHECK-NOT: @profile.i
glow.constant @w = dense<1.0> : tensor<4xf32>
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xi32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %w = glow.get @w : tensor<4xf32>
  %a = glow.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i = glow.cast %a : (tensor<4xf32>) -> tensor<4xi32>
  glow.save %i to @y : tensor<4xi32>
  // CHECK: glow.save %x to @profile.x
  // CHECK-NEXT: glow.save %a to @profile.a
}
