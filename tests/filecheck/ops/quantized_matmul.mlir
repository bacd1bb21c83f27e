// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<2x3x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @y input : tensor<4x5x!quant.uniform<u8:f32, 0.25:128>>
glow.func @main {
  %x = glow.get @x : tensor<2x3x4x!quant.uniform<i8:f32, 0.5:3>>
  %y = glow.get @y : tensor<4x5x!quant.uniform<u8:f32, 0.25:128>>
  // CHECK: glow.quantized_matmul %x, %y :
  %z = glow.quantized_matmul %x, %y : (tensor<2x3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x5x!quant.uniform<u8:f32, 0.25:128>>) -> tensor<2x3x5x!quant.uniform<i8:f32, 1.0:5>>
}

// -----

// expected-error@unknown {{glow.quantized_matmul: tensor<3x4x!quant.uniform<i8:f32, 0.5:3>> does not meet tensor<5x2x}}
glow.placeholder @x input : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @y input : tensor<5x2x!quant.uniform<i8:f32, 0.25>>
glow.func @main {
  %x = glow.get @x : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
  %y = glow.get @y : tensor<5x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK: error: {{.*}}does not meet
  %z = glow.quantized_matmul %x, %y : (tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<5x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:5>>
}
