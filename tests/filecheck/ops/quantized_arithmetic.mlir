// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @w input : tensor<4x!quant.uniform<i8:f32, 0.25>>
glow.func @main {
  %x = glow.get @x : tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<4x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.quantized_add %x, %w :
  %a = glow.quantized_add %x, %w : (tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x4x!quant.uniform<i8:f32, 1.0:5>>
  // CHECK: glow.quantized_sub %x, %w :
  %b = glow.quantized_sub %x, %w : (tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x4x!quant.uniform<i8:f32, 1.0:5>>
  // CHECK: glow.quantized_mul %x, %w {low = 5 : i64} :
  %c = glow.quantized_mul %x, %w {low = 5 : i64} : (tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x4x!quant.uniform<i8:f32, 1.0:5>>
}

// -----

// expected-error@unknown {{glow.quantized_add: tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>> has a scale for each}}
glow.placeholder @x input : tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
glow.func @main {
  %x = glow.get @x : tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  // CHECK: error: {{.*}}has a scale for each index; one is expected
  %a = glow.quantized_add %x, %x : (tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>, tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x4x!quant.uniform<i8:f32, 1.0:5>>
}
