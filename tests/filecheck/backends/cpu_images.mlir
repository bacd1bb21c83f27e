// RUN: glow-opt %s -p 'glow-cpu-images{cpu=znver5},glow-dce' | filecheck %s
// RUN: glow-opt %s -p 'glow-cpu-images{cpu=znver5 threads=2},glow-dce' | filecheck %s --check-prefix TWO

// Three layers on large images: image by image, what the one made is still in the cache for the next.
// A pair of convolutions with many weights on small images keeps the batch.
// CHECK:      %[[A:.*]] = glow.slice %x {starts = array<i64: 0, 0, 0, 0, 0>, ends = array<i64: 1, 4, 56, 56, 16>
// CHECK-NEXT: %[[C:.*]] = glow_cpu.conv %[[A]], %w {lanes = 16 : i64
// CHECK-NEXT: %[[P:.*]] = glow_cpu.pool %[[C]]
// CHECK-NEXT: %[[E0:.*]] = glow_cpu.conv %[[P]], %w, %[[P]]
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
// CHECK-NEXT:   glow.add %[[SUM]], %[[B]]
// CHECK-NEXT:   glow_cpu.yield
// CHECK-NEXT: }
// CHECK-NEXT: glow.slice %x {starts = array<i64: 1, 0, 0, 0, 0>
// CHECK:      glow.concat %[[E0]], %{{.*}}, %{{.*}}, %{{.*}} {axis = 0 : i64}
// CHECK-NOT:  glow.slice
// CHECK:      glow_cpu.conv %z, %v
// TWO:        glow.slice %x {starts = array<i64: 0, 0, 0, 0, 0>, ends = array<i64: 2, 4, 56, 56, 16>
// TWO:        glow.concat %{{.*}}, %{{.*}} {axis = 0 : i64}
glow.constant @w = #glow.resource<"w"> : tensor<64x64x1x1xf32>
glow.constant @v = #glow.resource<"v"> : tensor<1024x1024x3x3xf32>
glow.placeholder @x : tensor<4x4x56x56x16xf32>
glow.placeholder @y output : tensor<4x4x56x56x16xf32>
glow.placeholder @z : tensor<4x64x7x7x16xf32>
glow.placeholder @u output : tensor<4x64x7x7x16xf32>
glow.func @main {
  %x = glow.get @x : tensor<4x4x56x56x16xf32>
  %w = glow.get @w : tensor<64x64x1x1xf32>
  %c = glow_cpu.conv %x, %w {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<4x4x56x56x16xf32>, tensor<64x64x1x1xf32>) -> tensor<4x4x56x56x16xf32>
  %p = glow_cpu.pool %c {mode = "max", kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>} : (tensor<4x4x56x56x16xf32>) -> tensor<4x4x56x56x16xf32>
  %e = glow_cpu.conv %p, %w, %p {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0>} : (tensor<4x4x56x56x16xf32>, tensor<64x64x1x1xf32>, tensor<4x4x56x56x16xf32>) -> tensor<4x4x56x56x16xf32> {
  ^bb0(%sum: tensor<f32>, %before: tensor<f32>):
    %s = glow.add %sum, %before : (tensor<f32>, tensor<f32>) -> tensor<f32>
    glow_cpu.yield %s : tensor<f32>
  }
  %z = glow.get @z : tensor<4x64x7x7x16xf32>
  %v = glow.get @v : tensor<1024x1024x3x3xf32>
  %d = glow_cpu.conv %z, %v {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<4x64x7x7x16xf32>, tensor<1024x1024x3x3xf32>) -> tensor<4x64x7x7x16xf32>
  %f = glow_cpu.conv %d, %v {lanes = 16 : i64, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<4x64x7x7x16xf32>, tensor<1024x1024x3x3xf32>) -> tensor<4x64x7x7x16xf32>
  glow.save %e to @y : tensor<4x4x56x56x16xf32>
  glow.save %f to @u : tensor<4x64x7x7x16xf32>
}
