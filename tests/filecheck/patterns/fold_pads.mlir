// RUN: glow-opt %s -p 'glow-simplify{only=fold_pads}' | filecheck %s

glow.placeholder @x input : tensor<1x1x4x4xf32>
glow.placeholder @w input : tensor<1x1x3x3xf32>
glow.placeholder @y output : tensor<1x1x4x4xf32>

// CHECK-LABEL: glow.func @zeros
glow.func @zeros {
  %x = glow.get @x : tensor<1x1x4x4xf32>
  %w = glow.get @w : tensor<1x1x3x3xf32>
  // CHECK-NOT: glow.pad
  // CHECK: glow.conv %x, %w {{.*}}pads = array<i64: 1, 1, 1, 1>
  %p = glow.pad %x {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>} : (tensor<1x1x4x4xf32>) -> tensor<1x1x6x6xf32>
  %c = glow.conv %p, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x6x6xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  glow.save %c to @y : tensor<1x1x4x4xf32>
}

// The window pads with zeros only.
// CHECK-LABEL: glow.func @keeps_ones
glow.func @keeps_ones {
  %x = glow.get @x : tensor<1x1x4x4xf32>
  %w = glow.get @w : tensor<1x1x3x3xf32>
  // CHECK: glow.pad
  %p = glow.pad %x {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>, value = 1.0 : f64} : (tensor<1x1x4x4xf32>) -> tensor<1x1x6x6xf32>
  %c = glow.conv %p, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x6x6xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  glow.save %c to @y : tensor<1x1x4x4xf32>
}

glow.placeholder @one input : tensor<1x1x1x1xf32>
glow.placeholder @most output : tensor<1x1x1x1xf32>

// A window with holes may see the pads alone: zeros, whose place -inf must not take.
// CHECK-LABEL: glow.func @window_with_holes
glow.func @window_with_holes {
  %x = glow.get @one : tensor<1x1x1x1xf32>
  // CHECK: glow.pad
  %r = glow.relu %x : (tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32>
  %p = glow.pad %r {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>} : (tensor<1x1x1x1xf32>) -> tensor<1x1x3x3xf32>
  %m = glow.max_pool %p {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 2, 2>} : (tensor<1x1x3x3xf32>) -> tensor<1x1x1x1xf32>
  glow.save %m to @most : tensor<1x1x1x1xf32>
}

// What is padded for others too is there to be read.
// CHECK-LABEL: glow.func @keeps_shared
glow.func @keeps_shared {
  %x = glow.get @shared : tensor<1x2x3x3xf32>
  // CHECK: [[p:%.*]] = glow.pad %x
  // CHECK-NEXT: glow.avg_pool [[p]]
  %p = glow.pad %x {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>, value = 0.0 : f64} : (tensor<1x2x3x3xf32>) -> tensor<1x2x5x5xf32>
  %a = glow.avg_pool %p {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x5x5xf32>) -> tensor<1x2x4x4xf32>
  glow.save %p to @padded : tensor<1x2x5x5xf32>
  glow.save %a to @averages : tensor<1x2x4x4xf32>
}
glow.placeholder @shared input : tensor<1x2x3x3xf32>
glow.placeholder @padded output : tensor<1x2x5x5xf32>
glow.placeholder @averages output : tensor<1x2x4x4xf32>
