// RUN: glow-opt %s -p glow-fold-conversions | filecheck %s
// RUN: glow-opt %s -p "glow-fold-conversions{saturate=true}" | filecheck %s --check-prefix=SATURATE

glow.placeholder @q input : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @w input : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
glow.constant @table = #glow.bits<"0x000306090C0F1215181B1E2124272A2D303336393C3F4245484B4E5154575A5D606366696C6F7275787B7E8184878A8D909396999C9FA2A5A8ABAEB1B4B7BABDC0C3C6C9CCCFD2D5D8DBDEE1E4E7EAEDF0F3F6F9FCFF0205080B0E1114171A1D202326292C2F3235383B3E4144474A4D505356595C5F6265686B6E7174777A7D808386898C8F9295989B9EA1A4A7AAADB0B3B6B9BCBFC2C5C8CBCED1D4D7DADDE0E3E6E9ECEFF2F5F8FBFE0104070A0D101316191C1F2225282B2E3134373A3D404346494C4F5255585B5E6164676A6D707376797C7F8285888B8E9194979A9DA0A3A6A9ACAFB2B5B8BBBEC1C4C7CACDD0D3D6D9DCDFE2E5E8EBEEF1F4F7FAFD", tensor<256x!quant.uniform<i8:f32, 0.5:3>>>
glow.placeholder @x input : tensor<4x4xf32>
glow.placeholder @y output : tensor<4x4xf32>
glow.placeholder @r output : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @s output : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
glow.placeholder @z output : tensor<16xf32>

// CHECK-LABEL: glow.func @there_and_back
glow.func @there_and_back {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %a = glow.dequantize %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %b = glow.quantize %a : (tensor<4x4xf32>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK-NEXT: %q = glow.get
  // CHECK-NEXT: glow.save %q
  glow.save %b to @r : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: glow.func @another_scale
glow.func @another_scale {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: [[r:%.*]] = glow.rescale %q
  // CHECK-NEXT: glow.save [[r]]
  %a = glow.dequantize %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %b = glow.quantize %a : (tensor<4x4xf32>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  glow.save %b to @s : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}

// Rounding to integers is not undone.
// CHECK-LABEL: glow.func @keeps_rounding
glow.func @keeps_rounding {
  %x = glow.get @x : tensor<4x4xf32>
  // CHECK: glow.quantize
  // CHECK-NEXT: glow.dequantize
  %a = glow.quantize %x : (tensor<4x4xf32>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  %b = glow.dequantize %a : (tensor<4x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4x4xf32>
  glow.save %b to @y : tensor<4x4xf32>
}

// CHECK-LABEL: glow.func @moved
glow.func @moved {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: [[r:%.*]] = glow.reshape %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<16x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK-NEXT: glow.dequantize [[r]]
  %a = glow.dequantize %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %b = glow.reshape %a : (tensor<4x4xf32>) -> tensor<16xf32>
  glow.save %b to @z : tensor<16xf32>
}

// A relu is the least stored integer; a rescale is the product's own result type.
// CHECK-LABEL: glow.func @limits_and_result
glow.func @limits_and_result {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: [[p:%.*]] = glow.quantized_fully_connected %q, %w {low = 0 : i64, high = 62 : i64} : {{.*}} -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  // CHECK-NEXT: glow.save [[p]]
  %p = glow.quantized_fully_connected %q, %w : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %a = glow.dequantize %p : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %b = glow.relu %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = glow.quantize %b : (tensor<4x4xf32>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  glow.save %c to @s : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}

// Both sides of a maximum with one scale are compared as integers.
// CHECK-LABEL: glow.func @larger
glow.func @larger {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %n = glow.flip %q {axes = array<i64: 0>} : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: [[m:%.*]] = glow.max %q, %n
  // CHECK-NEXT: glow.dequantize [[m]]
  %a = glow.dequantize %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %b = glow.dequantize %n : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %c = glow.max %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  glow.save %c to @y : tensor<4x4xf32>
}

// CHECK-LABEL: glow.func @keeps_larger_of_two_scales
glow.func @keeps_larger_of_two_scales {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.max {{.*}} (tensor<4x4xf32>, tensor<4x4xf32>)
  %a = glow.dequantize %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  %b = glow.dequantize %w : (tensor<4x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x4xf32>
  %c = glow.max %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  glow.save %c to @y : tensor<4x4xf32>
}

// Operands of an addition may have any scale.
// CHECK-LABEL: glow.func @arithmetic
glow.func @arithmetic {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.quantized_add %q, %w
  %a = glow.rescale %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  %b = glow.quantized_add %a, %w : (tensor<4x4x!quant.uniform<i8:f32, 1.0>>, tensor<4x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  glow.save %b to @s : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}

// What is read as real numbers only never becomes 8 bits, unless saturation is part of the meaning.
// CHECK-LABEL: glow.func @real_result
// SATURATE-LABEL: glow.func @real_result
glow.func @real_result {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.quantized_fully_connected %q, %w : {{.*}} -> tensor<4x4xf32>
  // SATURATE: [[p:%.*]] = glow.quantized_fully_connected %q, %w : {{.*}} -> tensor<4x4x!quant.uniform
  // SATURATE-NEXT: glow.dequantize [[p]]
  %p = glow.quantized_fully_connected %q, %w : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %a = glow.dequantize %p : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4xf32>
  glow.save %a to @y : tensor<4x4xf32>
}

// A range that ends at zero stands for a relu that a quantiser left out: what passes through it stays limited.
// CHECK-LABEL: glow.func @keeps_limiting_result
glow.func @keeps_limiting_result {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.quantized_fully_connected %q, %w : {{.*}} -> tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>
  // CHECK-NEXT: glow.dequantize
  %p = glow.quantized_fully_connected %q, %w : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>
  %a = glow.dequantize %p : (tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<4x4xf32>
  glow.save %a to @y : tensor<4x4xf32>
}

// CHECK-LABEL: glow.func @keeps_limiting_rescale
glow.func @keeps_limiting_rescale {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: [[r:%.*]] = glow.rescale %q
  // CHECK-NEXT: glow.dequantize [[r]]
  %r = glow.rescale %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>
  %a = glow.dequantize %r : (tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<4x4xf32>
  glow.save %a to @y : tensor<4x4xf32>
}

// The limits of the first type are those of the joined operator.
// CHECK-LABEL: glow.func @limits_of_joined_rescale
glow.func @limits_of_joined_rescale {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.quantized_fully_connected %q, %w {low = 0 : i64}
  %p = glow.quantized_fully_connected %q, %w : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>
  %r = glow.rescale %p : (tensor<4x4x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  glow.save %r to @s : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}

// Two rescales are one; reading as real numbers needs none.
// CHECK-LABEL: glow.func @rescaled_twice
glow.func @rescaled_twice {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK-NEXT: %q = glow.get
  // CHECK-NEXT: [[r:%.*]] = glow.rescale %q : ({{.*}}) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  // CHECK-NEXT: glow.save [[r]]
  %a = glow.rescale %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 2.0>>
  %b = glow.rescale %a : (tensor<4x4x!quant.uniform<i8:f32, 2.0>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  glow.save %b to @s : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}

// CHECK-LABEL: glow.func @quantized_then_rescaled
glow.func @quantized_then_rescaled {
  %x = glow.get @x : tensor<4x4xf32>
  // CHECK: [[r:%.*]] = glow.quantize %x : ({{.*}}) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK-NEXT: glow.save [[r]]
  %a = glow.quantize %x : (tensor<4x4xf32>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  %b = glow.rescale %a : (tensor<4x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  glow.save %b to @r : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: glow.func @rescaled_then_real
glow.func @rescaled_then_real {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: [[r:%.*]] = glow.dequantize %q
  // CHECK-NEXT: glow.save [[r]]
  %a = glow.rescale %q : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 2.0>>
  %b = glow.dequantize %a : (tensor<4x4x!quant.uniform<i8:f32, 2.0>>) -> tensor<4x4xf32>
  glow.save %b to @y : tensor<4x4xf32>
}

// Two tables are one, whose entries have the last type.
// CHECK-LABEL: glow.func @tables
glow.func @tables {
  %q = glow.get @q : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %t = glow.get @table : tensor<256x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: [[r:%.*]] = glow.lookup %q, %{{.*}} : ({{.*}}, tensor<256x!quant.uniform<i8:f32, 1.0>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  // CHECK-NEXT: glow.save [[r]]
  %a = glow.lookup %q, %t : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %b = glow.lookup %a, %t : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  %c = glow.rescale %b : (tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x4x!quant.uniform<i8:f32, 1.0>>
  glow.save %c to @s : tensor<4x4x!quant.uniform<i8:f32, 1.0>>
}
