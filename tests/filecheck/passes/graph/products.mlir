// RUN: glow-opt %s -p glow-products | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @s input : tensor<5x2x3xf32>
glow.placeholder @w input : tensor<3x4xf32>
glow.placeholder @b input : tensor<4xf32>
glow.placeholder @t input : tensor<2x4xf32>
glow.placeholder @y output : tensor<2x4xf32>
glow.placeholder @z output : tensor<5x2x4xf32>

// CHECK-LABEL: glow.func @bias
glow.func @bias {
  %x = glow.get @x : tensor<2x3xf32>
  %w = glow.get @w : tensor<3x4xf32>
  %b = glow.get @b : tensor<4xf32>
  // CHECK: glow.fully_connected %x, %w, %b
  %p = glow.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %a = glow.add %p, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// CHECK-LABEL: glow.func @keeps_full_addend
glow.func @keeps_full_addend {
  %x = glow.get @x : tensor<2x3xf32>
  %w = glow.get @w : tensor<3x4xf32>
  %t = glow.get @t : tensor<2x4xf32>
  // CHECK: glow.matmul
  %p = glow.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %a = glow.add %p, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// CHECK-LABEL: glow.func @stack
glow.func @stack {
  %s = glow.get @s : tensor<5x2x3xf32>
  %w = glow.get @w : tensor<3x4xf32>
  // CHECK: [[r:%.*]] = glow.reshape %s : (tensor<5x2x3xf32>) -> tensor<10x3xf32>
  // CHECK-NEXT: [[p:%.*]] = glow.matmul [[r]], %w
  // CHECK-NEXT: glow.reshape [[p]] : (tensor<10x4xf32>) -> tensor<5x2x4xf32>
  %p = glow.batch_matmul %s, %w : (tensor<5x2x3xf32>, tensor<3x4xf32>) -> tensor<5x2x4xf32>
  glow.save %p to @z : tensor<5x2x4xf32>
}
