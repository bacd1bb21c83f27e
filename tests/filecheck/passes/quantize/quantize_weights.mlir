// RUN: glow-opt %s -p "glow-quantize-weights{bits=8 group=4 rounded=false}" | filecheck %s
// RUN: glow-opt %s -p "glow-quantize-weights{group=32}" | filecheck %s --check-prefix=WHOLE

glow.constant @w = dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, -8.0]]> : tensor<4x2xf32>
glow.placeholder @x input : tensor<3x4xf32>
glow.placeholder @v input : tensor<4x2xf32>
glow.placeholder @y output : tensor<3x2xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<3x4xf32>
  %w = glow.get @w : tensor<4x2xf32>
  // CHECK: [[w:%.*]] = glow.dequantize_blocks {{.*}} -> tensor<2x4xf32>
  // CHECK-NEXT: [[t:%.*]] = glow.transpose [[w]]
  // CHECK-NEXT: glow.matmul {{%.*}}, [[t]]
  // Four inputs are no whole group of 32.
  // WHOLE-NOT: glow.dequantize_blocks
  %y = glow.matmul %x, %w : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}

// Weights that are computed have no codes yet.
// CHECK-LABEL: glow.func @keeps_computed_weights
glow.func @keeps_computed_weights {
  %x = glow.get @x : tensor<3x4xf32>
  %v = glow.get @v : tensor<4x2xf32>
  // CHECK-NOT: glow.dequantize_blocks
  // CHECK: glow.matmul
  %y = glow.matmul %x, %v : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}
