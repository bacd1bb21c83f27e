// RUN: glow-opt %s -p glow-quantize-dynamic | filecheck %s

glow.constant @w = dense<[[1.0, -2.0], [0.5, 1.0]]> : tensor<2x2xf32>
glow.placeholder @x input : tensor<3x2xf32>
glow.placeholder @v input : tensor<2x2xf32>
glow.placeholder @y output : tensor<3x2xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  // CHECK: glow.reduce_max
  // CHECK: [[q:%.*]] = glow.bit_cast {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 1.0>>
  // CHECK: [[p:%.*]] = glow.quantized_fully_connected [[q]], {{.*}} -> tensor<3x2xf32>
  // CHECK-NEXT: glow.mul [[p]]
  %y = glow.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}

// Weights that are computed have no integers yet.
// CHECK-LABEL: glow.func @keeps_computed_weights
glow.func @keeps_computed_weights {
  %x = glow.get @x : tensor<3x2xf32>
  %v = glow.get @v : tensor<2x2xf32>
  // CHECK: glow.matmul
  %y = glow.matmul %x, %v : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}
