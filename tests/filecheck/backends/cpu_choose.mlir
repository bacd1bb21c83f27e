// RUN: glow-opt %s -p 'glow-cpu-choose{cpu=znver5}' | filecheck %s
// RUN: glow-opt %s -p 'glow-cpu-choose{cpu=znver5 winograd=false}' | filecheck %s --check-prefix DIRECT

// A large 3x3 convolution of many channels takes tiles of 4x4, one with stride only if it has still more.
// CHECK:      glow_cpu.conv %x, %w {algorithm = "winograd4"
// CHECK:      glow_cpu.conv %x, %w {lanes
// CHECK:      glow_cpu.conv %x2, %w2 {algorithm = "winograd4", {{.*}}strides = array<i64: 2, 2>
// A row of filter taps takes tiles along the row.
// CHECK:      glow_cpu.conv %x3, %w3 {algorithm = "winograd4"
// A filter of 5x5 takes tiles of 2x2.
// CHECK:      glow_cpu.conv %x, %w4 {algorithm = "winograd2"
// So does one with dilation, but for taps that hardly meet the image.
// CHECK:      glow_cpu.conv %x, %w {algorithm = "winograd4", lanes = 16 : i64, {{.*}}dilations = array<i64: 2, 2>
// CHECK:      glow_cpu.conv %x, %w {lanes = 16 : i64, {{.*}}dilations = array<i64: 40, 40>
// DIRECT-NOT: winograd
glow.constant @w = #glow.resource<"w"> : tensor<64x64x3x3xf32>
glow.placeholder @x : tensor<1x4x56x56x16xf32>
glow.constant @w2 = #glow.resource<"w2"> : tensor<128x128x3x3xf32>
glow.placeholder @x2 : tensor<1x8x56x56x16xf32>
glow.placeholder @z2 output : tensor<1x8x28x28x16xf32>
glow.constant @w4 = #glow.resource<"w4"> : tensor<64x64x5x5xf32>
glow.placeholder @z4 output : tensor<1x4x56x56x16xf32>
glow.constant @w3 = #glow.resource<"w3"> : tensor<128x128x1x5xf32>
glow.placeholder @x3 : tensor<1x8x1x400x16xf32>
glow.placeholder @z3 output : tensor<1x8x1x400x16xf32>
glow.placeholder @y output : tensor<1x4x56x56x16xf32>
glow.placeholder @z output : tensor<1x4x28x28x16xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x4x56x56x16xf32>
  %w = glow.get @w : tensor<64x64x3x3xf32>
  %c = glow_cpu.conv %x, %w {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x4x56x56x16xf32>, tensor<64x64x3x3xf32>) -> tensor<1x4x56x56x16xf32>
  %s = glow_cpu.conv %x, %w {lanes = 16 : i64, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x4x56x56x16xf32>, tensor<64x64x3x3xf32>) -> tensor<1x4x28x28x16xf32>
  %x2 = glow.get @x2 : tensor<1x8x56x56x16xf32>
  %w2 = glow.get @w2 : tensor<128x128x3x3xf32>
  %s2 = glow_cpu.conv %x2, %w2 {lanes = 16 : i64, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x8x56x56x16xf32>, tensor<128x128x3x3xf32>) -> tensor<1x8x28x28x16xf32>
  %x3 = glow.get @x3 : tensor<1x8x1x400x16xf32>
  %w3 = glow.get @w3 : tensor<128x128x1x5xf32>
  %s3 = glow_cpu.conv %x3, %w3 {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 2, 0, 2>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x8x1x400x16xf32>, tensor<128x128x1x5xf32>) -> tensor<1x8x1x400x16xf32>
  %w4 = glow.get @w4 : tensor<64x64x5x5xf32>
  %s4 = glow_cpu.conv %x, %w4 {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x4x56x56x16xf32>, tensor<64x64x5x5xf32>) -> tensor<1x4x56x56x16xf32>
  glow.save %s4 to @z4 : tensor<1x4x56x56x16xf32>
  %s5 = glow_cpu.conv %x, %w {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x4x56x56x16xf32>, tensor<64x64x3x3xf32>) -> tensor<1x4x56x56x16xf32>
  %s6 = glow_cpu.conv %x, %w {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 40, 40, 40, 40>, dilations = array<i64: 40, 40>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x4x56x56x16xf32>, tensor<64x64x3x3xf32>) -> tensor<1x4x56x56x16xf32>
  glow.save %s5 to @z4 : tensor<1x4x56x56x16xf32>
  glow.save %s6 to @z4 : tensor<1x4x56x56x16xf32>
  glow.save %s3 to @z3 : tensor<1x8x1x400x16xf32>
  glow.save %s2 to @z2 : tensor<1x8x28x28x16xf32>
  glow.save %c to @y : tensor<1x4x56x56x16xf32>
  glow.save %s to @z : tensor<1x4x28x28x16xf32>
}
