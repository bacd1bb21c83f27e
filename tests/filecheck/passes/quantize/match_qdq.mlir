// RUN: glow-opt %s -p glow-match-qdq | filecheck %s

glow.constant @w = #glow.bits<"0x01FE0304", tensor<2x2x!quant.uniform<i8:f32, 0.25>>>
glow.placeholder @stacked input : tensor<2x3x2x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @stack_result output : tensor<2x3x2xf32>
glow.placeholder @q input : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @other input : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
glow.constant @stored = #glow.bits<"0x01FE03040506", tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>>
glow.constant @table = #glow.bits<"0x00020406080A0C0E10121416181A1C1E20222426282A2C2E30323436383A3C3E40424446484A4C4E50525456585A5C5E60626466686A6C6E70727476787A7C7E80828486888A8C8E90929496989A9C9EA0A2A4A6A8AAACAEB0B2B4B6B8BABCBEC0C2C4C6C8CACCCED0D2D4D6D8DADCDEE0E2E4E6E8EAECEEF0F2F4F6F8FAFCFE00020406080A0C0E10121416181A1C1E20222426282A2C2E30323436383A3C3E40424446484A4C4E50525456585A5C5E60626466686A6C6E70727476787A7C7E80828486888A8C8E90929496989A9C9EA0A2A4A6A8AAACAEB0B2B4B6B8BABCBEC0C2C4C6C8CACCCED0D2D4D6D8DADCDEE0E2E4E6E8EAECEEF0F2F4F6F8FAFCFE", tensor<256x!quant.uniform<i8:f32, 1.0>>>
glow.placeholder @v input : tensor<2x2xf32>
glow.placeholder @y output : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
glow.constant @filter = #glow.bits<"0x01FE", tensor<1x2x1x1x!quant.uniform<i8:f32:0, {0.25}>>>
glow.constant @offset = dense<[2.0]> : tensor<1xf32>
glow.constant @two = dense<[2.0, 3.0]> : tensor<2xf32>
glow.placeholder @image input : tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5:128>>
glow.placeholder @bytes input : tensor<4xui8>
glow.placeholder @plane output : tensor<1x1x3x3x!quant.uniform<u8:f32, 1.0:7>>
glow.placeholder @point output : tensor<1x2x1x1x!quant.uniform<u8:f32, 1.0:7>>
glow.placeholder @same output : tensor<4xui8>
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

// A convolution, its bias in units of both scales.
// CHECK-LABEL: glow.func @convolution
glow.func @convolution {
  %q = glow.get @image : tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5:128>>
  %x = glow.dequantize %q : (tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<1x2x3x3xf32>
  %s = glow.get @filter : tensor<1x2x1x1x!quant.uniform<i8:f32:0, {0.25}>>
  %w = glow.dequantize %s : (tensor<1x2x1x1x!quant.uniform<i8:f32:0, {0.25}>>) -> tensor<1x2x1x1xf32>
  %b = glow.get @offset : tensor<1xf32>
  // CHECK: glow.quantized_conv %q, {{.*}}, {{.*}} tensor<1xi32>) -> tensor<1x1x3x3x!quant.uniform<u8:f32, 1.0:7>>
  %p = glow.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<1x2x3x3xf32>, tensor<1x2x1x1xf32>, tensor<1xf32>) -> tensor<1x1x3x3xf32>
  %y = glow.quantize %p : (tensor<1x1x3x3xf32>) -> tensor<1x1x3x3x!quant.uniform<u8:f32, 1.0:7>>
  glow.save %y to @plane : tensor<1x1x3x3x!quant.uniform<u8:f32, 1.0:7>>
}

// A row added to a product is its bias.
// CHECK-LABEL: glow.func @row
glow.func @row {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %s = glow.get @w : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %w = glow.dequantize %s : (tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2xf32>
  %b = glow.get @two : tensor<2xf32>
  // CHECK: glow.quantized_fully_connected %q, %{{.*}}, %{{.*}} : ({{.*}}, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  %p = glow.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %r = glow.add %p, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %r : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// Weights that are stored transposed are transposed at compile time.
// CHECK-LABEL: glow.func @transposed
// CHECK-NOT: glow.transpose
glow.func @transposed {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %s = glow.get @w : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %w = glow.dequantize %s : (tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2xf32>
  %t = glow.transpose %w {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: glow.quantized_fully_connected %q
  %p = glow.matmul %x, %t : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %p : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// A sum of stored integers and its relu, in any scales.
// CHECK-LABEL: glow.func @sum
glow.func @sum {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %r0 = glow.get @other : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %o = glow.dequantize %r0 : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  // CHECK: glow.quantized_add %q, %r0 {low = -5 : i64
  %p = glow.add %x, %o : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %r = glow.relu %p : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %r : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// The mean of a window.
// CHECK-LABEL: glow.func @mean
glow.func @mean {
  %q = glow.get @image : tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5:128>>
  %x = glow.dequantize %q : (tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5:128>>) -> tensor<1x2x3x3xf32>
  // CHECK: glow.quantized_avg_pool %q
  %p = glow.avg_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x3x3xf32>) -> tensor<1x2x1x1xf32>
  %y = glow.quantize %p : (tensor<1x2x1x1xf32>) -> tensor<1x2x1x1x!quant.uniform<u8:f32, 1.0:7>>
  glow.save %y to @point : tensor<1x2x1x1x!quant.uniform<u8:f32, 1.0:7>>
}

// Plain bytes that become stored integers and bytes again are themselves.
// CHECK-LABEL: glow.func @bits
// CHECK-NOT: glow.bit_cast
glow.func @bits {
  %x = glow.get @bytes : tensor<4xui8>
  %q = glow.bit_cast %x : (tensor<4xui8>) -> tensor<4x!quant.uniform<u8:f32, 1.0:7>>
  %f = glow.dequantize %q : (tensor<4x!quant.uniform<u8:f32, 1.0:7>>) -> tensor<4xf32>
  %s = glow.quantize %f : (tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 1.0:7>>
  %y = glow.bit_cast %s : (tensor<4x!quant.uniform<u8:f32, 1.0:7>>) -> tensor<4xui8>
  // CHECK: glow.save %x to
  glow.save %y to @same : tensor<4xui8>
}

// An activation of several operators, with conversions between them and its argument read twice: a table.
// CHECK-LABEL: glow.func @function
// CHECK: [[f:%.*]] = glow.lookup %q, %{{.*}} : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 1.0:-5>>)
// CHECK-NEXT: glow.save [[f]] to
glow.func @function {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %s = glow.sigmoid %x : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %t = glow.quantize %s : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<u8:f32, 0.00390625>>
  %u = glow.dequantize %t : (tensor<3x2x!quant.uniform<u8:f32, 0.00390625>>) -> tensor<3x2xf32>
  %p = glow.mul %x, %u : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %p : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// What depends on two stored values is no table; the function of one of them is.
// CHECK-LABEL: glow.func @gate
// CHECK: [[g:%.*]] = glow.lookup %r0
// CHECK: glow.quantized_mul %q, [[g]]
glow.func @gate {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %r0 = glow.get @other : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %o = glow.dequantize %r0 : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %s = glow.sigmoid %o : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %t = glow.quantize %s : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<u8:f32, 0.00390625>>
  %u = glow.dequantize %t : (tensor<3x2x!quant.uniform<u8:f32, 0.00390625>>) -> tensor<3x2xf32>
  %p = glow.mul %x, %u : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %p : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}

// A stack of matrices by one constant matrix is one product of all rows.
// CHECK-LABEL: glow.func @stack
// CHECK: [[s:%.*]] = glow.reshape %s
// CHECK-NEXT: [[p:%.*]] = glow.quantized_fully_connected [[s]]
// CHECK-NEXT: glow.reshape [[p]] : (tensor<6x2xf32>) -> tensor<2x3x2xf32>
glow.func @stack {
  %s = glow.get @stacked : tensor<2x3x2x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %x = glow.dequantize %s : (tensor<2x3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x3x2xf32>
  %v = glow.dequantize %w : (tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2xf32>
  %p = glow.batch_matmul %x, %v : (tensor<2x3x2xf32>, tensor<2x2xf32>) -> tensor<2x3x2xf32>
  glow.save %p to @stack_result : tensor<2x3x2xf32>
}

// Stored constants that a table is asked for are many numbers, not one function of the other value.
// CHECK-LABEL: glow.func @asked
// CHECK: %c = glow.get @stored
// CHECK: [[l:%.*]] = glow.lookup %c
// CHECK: glow.quantized_mul %q, [[l]]
glow.func @asked {
  %q = glow.get @q : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %c = glow.get @stored : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>
  %t = glow.get @table : tensor<256x!quant.uniform<i8:f32, 1.0>>
  %l = glow.lookup %c, %t : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 1.0>>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0>>
  %x = glow.dequantize %q : (tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x2xf32>
  %o = glow.dequantize %l : (tensor<3x2x!quant.uniform<i8:f32, 1.0>>) -> tensor<3x2xf32>
  %p = glow.mul %x, %o : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = glow.quantize %p : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i8:f32, 1.0:-5>>
}
