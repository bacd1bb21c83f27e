// RUN: glow-opt %s -p 'glow-cpu-layout{cpu="haswell"},glow-cpu-pairs{cpu="haswell"}' | filecheck %s
// RUN: glow-opt %s -p 'glow-cpu-layout{cpu="znver4"},glow-cpu-pairs{cpu="znver4"}' | filecheck %s --check-prefix FOUR

glow.constant @f = #glow.bits<"0x0102030405060708090A0B0C0D0E0F10", tensor<8x2x1x1x!quant.uniform<i8:f32, 0.25>>>
glow.constant @d = #glow.bits<"0x01020304", tensor<4x1x1x1x!quant.uniform<i8:f32, 0.25>>>
glow.constant @w = #glow.bits<"0x01FE0304", tensor<2x2x!quant.uniform<i8:f32, 0.25>>>
glow.placeholder @x input : tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>
glow.placeholder @z input : tensor<1x4x4x4x!quant.uniform<u8:f32, 0.5>>
glow.placeholder @rows input : tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @row input : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @y output : tensor<1x8x4x4xf32>
glow.placeholder @e output : tensor<1x4x4x4xf32>
glow.placeholder @many output : tensor<4x2xf32>
glow.placeholder @few output : tensor<3x2xf32>

// FOUR-NOT: pairs
// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>
  %f = glow.get @f : tensor<8x2x1x1x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.rescale {{.*}}!quant.uniform<u8:f32, 0.5>>) -> {{.*}}!quant.uniform<u16:f32, 0.5>>
  // CHECK: glow_cpu.pairs_conv
  %y = glow.quantized_conv %x, %f {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5>>, tensor<8x2x1x1x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x8x4x4xf32>
  glow.save %y to @y : tensor<1x8x4x4xf32>
  // Each channel has a filter of its own.
  %z = glow.get @z : tensor<1x4x4x4x!quant.uniform<u8:f32, 0.5>>
  %d = glow.get @d : tensor<4x1x1x1x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow_cpu.quantized_conv
  %e = glow.quantized_conv %z, %d {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 4 : i64} : (tensor<1x4x4x4x!quant.uniform<u8:f32, 0.5>>, tensor<4x1x1x1x!quant.uniform<i8:f32, 0.25>>) -> tensor<1x4x4x4xf32>
  glow.save %e to @e : tensor<1x4x4x4xf32>
  %w = glow.get @w : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %rows = glow.get @rows : tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: glow.rescale {{.*}} -> tensor<4x2x!quant.uniform<i16:f32, 0.5:3>>
  // CHECK: glow_cpu.pairs_fully_connected
  %many = glow.quantized_fully_connected %rows, %w : (tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x2xf32>
  glow.save %many to @many : tensor<4x2xf32>
  // Three rows wait for their weights.
  %row = glow.get @row : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: glow.quantized_fully_connected
  %few = glow.quantized_fully_connected %row, %w : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2xf32>
  glow.save %few to @few : tensor<3x2xf32>
}
