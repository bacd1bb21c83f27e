// RUN: glow-opt %s -p glow-cpu-layout,glow-dce | filecheck %s

glow.constant @w = dense<0.5> : tensor<32x16x1x1xf32>
glow.placeholder @x input : tensor<1x16x4x4xf32>
glow.placeholder @y output : tensor<1x32x2x2xf32>

// Between a convolution and a pool the normalisation stays on channel blocks.
// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<1x16x4x4xf32>
  %w = glow.get @w : tensor<32x16x1x1xf32>
  // CHECK: glow_cpu.conv
  // CHECK-NOT: glow_cpu.unblock
  // CHECK: glow_cpu.lrn {{.*}} {channels = 32 : i64, size = 5 : i64
  // CHECK-NEXT: glow_cpu.pool
  // CHECK-NEXT: glow_cpu.unblock
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<1x16x4x4xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x4x4xf32>
  %n = glow.lrn %c {size = 5 : i64} : (tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32>
  %p = glow.max_pool %n {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x32x4x4xf32>) -> tensor<1x32x2x2xf32>
  glow.save %p to @y : tensor<1x32x2x2xf32>
}
