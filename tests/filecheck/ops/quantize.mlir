// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The quantised element type says how.

glow.placeholder @a0 input : tensor<3x4xf32>
glow.placeholder @a1 input : tensor<2x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  // CHECK: = glow.quantize %a0 : (tensor<3x4xf32>) -> tensor<3x4x!quant.uniform<i8:f32, 0.05:3>>
  %0 = glow.quantize %a0 : (tensor<3x4xf32>) -> tensor<3x4x!quant.uniform<i8:f32, 0.05:3>>
  %a1 = glow.get @a1 : tensor<2x4xf32>
  // CHECK: = glow.quantize %a1 : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i8:f32:0, {0.1, 0.2:1}>>
  %1 = glow.quantize %a1 : (tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i8:f32:0, {0.1, 0.2:1}>>
}

// -----

// expected-error@unknown {{expected quantised elements, got tensor<3x4xi8>}}
// CHECK: expected quantised elements, got tensor<3x4xi8>
glow.placeholder @a0 input : tensor<3x4xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x4xf32>
  %0 = glow.quantize %a0 : (tensor<3x4xf32>) -> tensor<3x4xi8>
}
