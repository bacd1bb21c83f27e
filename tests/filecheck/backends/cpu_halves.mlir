// RUN: glow-opt %s -p glow-cpu-halves | filecheck %s

glow.constant @w = #glow.bits<"0x01FE0304", tensor<2x2x!quant.uniform<i8:f32, 0.25>>>
glow.placeholder @x input : tensor<3x2x!quant.uniform<i16:f32, 0.5:300>>
glow.placeholder @y output : tensor<3x2x!quant.uniform<i16:f32, 1.0:-5>>

// Upper bytes, 128 higher, with zero point 1 + 128, lower ones with 44: 256 + 44 = 300.
// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<3x2x!quant.uniform<i16:f32, 0.5:300>>
  %w = glow.get @w : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.shift_right
  // CHECK: glow.splat {value = 1.280000e+02 : f64}
  // CHECK: glow.bitwise_and
  // CHECK: glow.quantized_fully_connected {{.*}}(tensor<3x2x!quant.uniform<u8:f32, 128.0:129>>, {{.*}} -> tensor<3x2xi32>
  // CHECK: glow.quantized_fully_connected {{.*}}(tensor<3x2x!quant.uniform<u8:f32, 0.5:44>>, {{.*}} -> tensor<3x2xi32>
  // Sums of two products fit into 32 bits.
  // CHECK: glow.shift_left {{.*}} -> tensor<3x2xi32>
  // CHECK: glow.add {{.*}} -> tensor<3x2xi32>
  // CHECK: glow.clip {{.*}}
  // CHECK: glow.bit_cast {{.*}} -> tensor<3x2x!quant.uniform<i16:f32, 1.0:-5>>
  %y = glow.quantized_fully_connected %x, %w : (tensor<3x2x!quant.uniform<i16:f32, 0.5:300>>, tensor<2x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i16:f32, 1.0:-5>>
  glow.save %y to @y : tensor<3x2x!quant.uniform<i16:f32, 1.0:-5>>
}

// A convolution likewise, its bias beside the channels.
// CHECK-LABEL: glow.func @convolution
glow.func @convolution {
  %x = glow.get @image : tensor<1x2x3x3x!quant.uniform<i16:f32, 0.5>>
  %w = glow.get @filter : tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25>>
  %b = glow.get @b : tensor<2xi32>
  // CHECK: glow.quantized_conv {{.*}}(tensor<1x2x3x3x!quant.uniform<u8:f32, 128.0:128>>, {{.*}} -> tensor<1x2x3x3xi32>
  // CHECK: glow.quantized_conv {{.*}}(tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5>>, {{.*}} -> tensor<1x2x3x3xi32>
  // CHECK: glow.add {{.*}}(tensor<1x2x3x3xi32>, tensor<1x2x1x1xi32>) -> tensor<1x2x3x3xi32>
  %y = glow.quantized_conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x3x3x!quant.uniform<i16:f32, 0.5>>, tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25>>, tensor<2xi32>) -> tensor<1x2x3x3x!quant.uniform<i16:f32, 1.0>>
  glow.save %y to @plane : tensor<1x2x3x3x!quant.uniform<i16:f32, 1.0>>
}
glow.constant @filter = #glow.bits<"0x01FE0304", tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25>>>
glow.constant @b = dense<[7, 8]> : tensor<2xi32>
glow.placeholder @image input : tensor<1x2x3x3x!quant.uniform<i16:f32, 0.5>>
glow.placeholder @plane output : tensor<1x2x3x3x!quant.uniform<i16:f32, 1.0>>
