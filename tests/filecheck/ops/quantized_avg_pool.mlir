// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
glow.func @main {
  %x = glow.get @x : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: glow.quantized_avg_pool %x {kernel = array<i64: 4, 4>
  %a = glow.quantized_avg_pool %x {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x1x1x!quant.uniform<i8:f32, 0.25>>
}

// -----

// expected-error@unknown {{glow.quantized_avg_pool: the result is tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>, the o}}
glow.placeholder @x input : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
glow.func @main {
  %x = glow.get @x : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: error: {{.*}}the operands give 1x2x1x1
  %a = glow.quantized_avg_pool %x {kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25>>
}
