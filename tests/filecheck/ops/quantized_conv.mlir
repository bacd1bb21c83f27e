// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A convolution of stored integers: scales of rows, i32 bias, `low` where a relu was.

glow.placeholder @x input : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @w input : tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25, 0.125}>>
glow.placeholder @b input : tensor<2xi32>
glow.func @main {
  %x = glow.get @x : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25, 0.125}>>
  %b = glow.get @b : tensor<2xi32>
  // CHECK: glow.quantized_conv %x, %w, %b {{.*}}low = 5 : i64{{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 1.0:5>>
  %y = glow.quantized_conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, low = 5 : i64} : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.25, 0.125}>>, tensor<2xi32>) -> tensor<1x2x4x4x!quant.uniform<i8:f32, 1.0:5>>
}

// -----

// expected-error@unknown {{glow.quantized_conv: the filter needs zero point 0 and scales of axis 0}}
glow.placeholder @x input : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @w input : tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25:1>>
glow.func @main {
  %x = glow.get @x : tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
  %w = glow.get @w : tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25:1>>
  // CHECK: error: {{.*}}the filter needs zero point 0 and scales of axis 0
  %y = glow.quantized_conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25:1>>) -> tensor<1x2x4x4x!quant.uniform<i8:f32, 1.0:5>>
}
