// RUN: glow-opt %s -p glow-cpu-fuse-sums,glow-dce | filecheck %s

// The residual is added while the convolution's bytes are in registers.
// CHECK:      glow_cpu.quantized_conv %x, %w, %x {sum_low = 7 : i64, between = !quant.uniform<u8:f32, 0.5:3>
// CHECK-NOT:  glow.quantized_add
// CHECK:      glow.save

glow.placeholder @x : tensor<1x1x2x2x16x!quant.uniform<u8:f32, 0.25>>
glow.constant @w = #glow.resource<"w"> : tensor<16x16x1x1x!quant.uniform<i8:f32, 0.125>>
glow.placeholder @y output : tensor<1x1x2x2x16x!quant.uniform<u8:f32, 1.0:7>>
glow.func @main {
  %x = glow.get @x : tensor<1x1x2x2x16x!quant.uniform<u8:f32, 0.25>>
  %w = glow.get @w : tensor<16x16x1x1x!quant.uniform<i8:f32, 0.125>>
  %0 = glow_cpu.quantized_conv %x, %w {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x1x2x2x16x!quant.uniform<u8:f32, 0.25>>, tensor<16x16x1x1x!quant.uniform<i8:f32, 0.125>>) -> tensor<1x1x2x2x16x!quant.uniform<u8:f32, 0.5:3>>
  %1 = glow.quantized_add %0, %x {low = 7 : i64} : (tensor<1x1x2x2x16x!quant.uniform<u8:f32, 0.5:3>>, tensor<1x1x2x2x16x!quant.uniform<u8:f32, 0.25>>) -> tensor<1x1x2x2x16x!quant.uniform<u8:f32, 1.0:7>>
  glow.save %1 to @y : tensor<1x1x2x2x16x!quant.uniform<u8:f32, 1.0:7>>
}
