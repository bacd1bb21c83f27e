// RUN: glow-opt %s -p glow-quantize | filecheck %s
// RUN: glow-opt %s -p 'glow-quantize{schema=symmetric}' | filecheck %s --check-prefix SYMMETRIC
// RUN: glow-opt %s -p 'glow-quantize{keep=fully_connected}' | filecheck %s --check-prefix KEEP

glow.constant @w = dense<[[1.0, -2.0], [0.5, 1.0]]> : tensor<2x2xf32>
glow.constant @b = dense<[1.0, 2.0]> : tensor<2xf32>
glow.placeholder @x input : tensor<3x2xf32>
glow.placeholder @y output : tensor<3x2xf32>

// Input and result by their ranges, each column of weights by its largest element.
// CHECK-LABEL: glow.func @main
// KEEP-LABEL: glow.func @main
glow.func @main {
  // CHECK: [[x:%.*]] = glow.quantize %x {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 0.03125:-64>>
  // SYMMETRIC: glow.quantize %x {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 0.046{{[0-9]*}}>>
  %x = glow.get @x {range = array<f64: -2.0, 5.96875>} : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  %b = glow.get @b : tensor<2xf32>
  // CHECK: [[y:%.*]] = glow.quantized_fully_connected [[x]], {{.*}}!quant.uniform<i8:f32:1, {0.007{{[0-9]*}}, 0.015{{[0-9]*}}}>
  // CHECK-NEXT: [[real:%.*]] = glow.dequantize [[y]]
  // CHECK-NEXT: glow.save [[real]]
  // KEEP: glow.fully_connected
  %y = glow.fully_connected %x, %w, %b {range = array<f64: 0.0, 8.0>} : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}

// Nobody knows the range of the result.
// CHECK-LABEL: glow.func @keeps_without_range
glow.func @keeps_without_range {
  %x = glow.get @x {range = array<f64: -2.0, 5.96875>} : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  // CHECK: glow.matmul
  %y = glow.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}
