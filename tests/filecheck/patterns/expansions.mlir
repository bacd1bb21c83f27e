// RUN: glow-opt %s -p 'glow-simplify{only=expansions}' | filecheck %s

glow.placeholder @x input : tensor<3xf32>
glow.placeholder @w input : tensor<2x3xf32>
glow.placeholder @y output : tensor<2x3xf32>

// CHECK-LABEL: glow.func @broadcast
glow.func @broadcast {
  %x = glow.get @x : tensor<3xf32>
  %w = glow.get @w : tensor<2x3xf32>
  // CHECK: glow.add %x, %w
  %e = glow.expand %x : (tensor<3xf32>) -> tensor<2x3xf32>
  %a = glow.add %e, %w : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  glow.save %a to @y : tensor<2x3xf32>
}

// The expansion gives the result its shape.
// CHECK-LABEL: glow.func @keeps_shape
glow.func @keeps_shape {
  %x = glow.get @x : tensor<3xf32>
  // CHECK: glow.expand
  %e = glow.expand %x : (tensor<3xf32>) -> tensor<2x3xf32>
  %a = glow.add %e, %x : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  glow.save %a to @y : tensor<2x3xf32>
}
