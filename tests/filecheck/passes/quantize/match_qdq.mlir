// RUN: glow-opt %s -p glow-match-qdq | filecheck %s

glow.constant @w = #glow.bits<"0x01FE0304", tensor<2x2x!quant.uniform<i8:f32, 0.25>>>
glow.placeholder @q input : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @v input : tensor<2x2xf32>
glow.placeholder @y output : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
glow.placeholder @z output : tensor<3x3x!quant.uniform<i8:f32, 1.0:-5>>

// Conversions around a product: integers all through, the relu as the least one.
// CHECK-LABEL: glow.func @main
glow.func @main {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %s = glow.get @w : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %w = glow.dequantize %s : (tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2xf32>
  // CHECK: [[p:%.*]] = glow.quantized_fully_connected %q, {{.*}}low = -5 : i64{{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  // CHECK-NEXT: glow.save [[p]]
  %p = glow.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %r = glow.relu %p : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %r : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// Float weights stay float.
// CHECK-LABEL: glow.func @keeps_float_weights
glow.func @keeps_float_weights {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %v = glow.get @v : tensor<2x2xf32>
  // CHECK: glow.matmul
  %p = glow.matmul %x, %v : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %p : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// A product of two computed operands: integers too.
// CHECK-LABEL: glow.func @attention
glow.func @attention {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %t = glow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // CHECK: glow.quantized_matmul %q, {{.*}} -> tensor<3x3x!quant.uniform<i8:f32, 1.0:-5>>
  %p = glow.batch_matmul %x, %t : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  %y = glow.quantize %p : (tensor<3x3xf32>) -> tensor<3x3x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @z : tensor<3x3x!quant.uniform<i8:f32, 1.0:-5>>
}
