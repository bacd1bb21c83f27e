// RUN: glow-opt %s -p 'glow-quantize{everything=true},glow-fold-conversions,glow-dce' | filecheck %s

// Figure 5 of the Glow paper: a residual block of ResNet50 computes on integers from end to end. Each
// relu is the least stored integer of the operator before it; the addition takes operands of two
// scales; nothing is rescaled between them.

glow.constant @w1 = dense<0.5> : tensor<2x2x1x1xf32>
glow.constant @b1 = dense<[1.0, -1.0]> : tensor<2xf32>
glow.constant @w2 = dense<0.25> : tensor<2x2x1x1xf32>
glow.constant @b2 = dense<[0.5, 0.5]> : tensor<2xf32>
glow.placeholder @x input : tensor<1x2x4x4xf32>
glow.placeholder @y output : tensor<1x2x4x4xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  // CHECK: [[x:%.*]] = glow.quantize {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, [[SX:.*]]:-128>>
  %x = glow.get @x {range = array<f64: 0.0, 4.0>} : tensor<1x2x4x4xf32>
  %w1 = glow.get @w1 : tensor<2x2x1x1xf32>
  %b1 = glow.get @b1 : tensor<2xf32>
  %w2 = glow.get @w2 : tensor<2x2x1x1xf32>
  %b2 = glow.get @b2 : tensor<2xf32>
  // CHECK: [[c1:%.*]] = glow.quantized_conv [[x]], {{.*}}low = -128 : i64
  %c1 = glow.conv %x, %w1, %b1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, range = array<f64: -3.0, 3.0>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r1 = glow.relu %c1 {range = array<f64: 0.0, 3.0>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  // CHECK-NEXT: [[c2:%.*]] = glow.quantized_conv [[c1]]
  %c2 = glow.conv %r1, %w2, %b2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, range = array<f64: -2.0, 2.0>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  // CHECK-NEXT: [[s:%.*]] = glow.quantized_add [[c1]], [[c2]] {low = -128 : i64}
  %s = glow.add %r1, %c2 {range = array<f64: -2.0, 5.0>} : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %r2 = glow.relu %s {range = array<f64: 0.0, 5.0>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  // CHECK-NEXT: [[m:%.*]] = glow.max_pool [[s]]
  %m = glow.max_pool %r2 {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  // CHECK-NEXT: [[real:%.*]] = glow.dequantize [[m]]
  // CHECK-NEXT: glow.save [[real]] to @y
  glow.save %m to @y : tensor<1x2x4x4xf32>
}
