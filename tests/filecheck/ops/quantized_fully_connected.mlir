// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @w input : tensor<4x2x!quant.uniform<i8:f32:1, {0.25, 0.125}>>
glow.func @main {
  %x = glow.get @x : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x2x!quant.uniform<i8:f32:1, {0.25, 0.125}>>
  // CHECK: glow.quantized_fully_connected %x, %w :
  %y = glow.quantized_fully_connected %x, %w : (tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x2x!quant.uniform<i8:f32:1, {0.25, 0.125}>>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:5>>
}

// -----

// expected-error@unknown {{glow.quantized_fully_connected: tensor<3x4x!quant.uniform<i8:f32, 0.5:3>> does not meet te}}
glow.placeholder @x input : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @w input : tensor<5x2x!quant.uniform<i8:f32, 0.25>>
glow.func @main {
  %x = glow.get @x : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<5x2x!quant.uniform<i8:f32, 0.25>>
  // CHECK: error: {{.*}}does not meet
  %y = glow.quantized_fully_connected %x, %w : (tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<5x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x!quant.uniform<i8:f32, 1.0:5>>
}
