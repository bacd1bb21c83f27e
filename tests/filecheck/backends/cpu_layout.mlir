// RUN: glow-opt %s -p 'glow-cpu-layout{cpu=haswell}' --split-input-file | filecheck %s
// RUN: glow-opt %s -p 'glow-layout{backend=cpu cpu=haswell}' --split-input-file | filecheck %s

// A region of a convolution, a pool and an element-wise operator converts at its borders only.
// CHECK:       %[[X:.*]] = glow.get @x
// CHECK:       %[[IN:.*]] = glow_cpu.block %[[X]] {lanes = 8 : i64} : (tensor<1x16x8x8xf32>) -> tensor<1x2x8x8x8xf32>
// CHECK-NEXT:  %[[CONV:.*]] = glow_cpu.conv %[[IN]], %w {
// CHECK-SAME:    -> tensor<1x4x8x8x8xf32>
// CHECK-NEXT:  %[[RELU:.*]] = glow.relu %[[CONV]]
// CHECK-NEXT:  %[[POOL:.*]] = glow_cpu.pool %[[RELU]] {mode = "max",
// CHECK-SAME:    -> tensor<1x4x4x4x8xf32>
// CHECK-NEXT:  %[[OUT:.*]] = glow_cpu.unblock %[[POOL]] {channels = 30 : i64} : (tensor<1x4x4x4x8xf32>) -> tensor<1x30x4x4xf32>
// CHECK-NEXT:  glow.save %[[OUT]] to @y
glow.constant @w = #glow.resource<"w"> : tensor<30x16x3x3xf32>
glow.placeholder @x : tensor<1x16x8x8xf32>
glow.placeholder @y output : tensor<1x30x4x4xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x16x8x8xf32>
  %w = glow.get @w : tensor<30x16x3x3xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<30x16x3x3xf32>) -> tensor<1x30x8x8xf32>
  %r = glow.relu %c : (tensor<1x30x8x8xf32>) -> tensor<1x30x8x8xf32>
  %p = glow.max_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x30x8x8xf32>) -> tensor<1x30x4x4xf32>
  glow.save %p to @y : tensor<1x30x4x4xf32>
}

// -----

// An image of few channels is read as it is; channels moved last and first again cost nothing.
// CHECK:       glow_cpu.conv %{{.*}}, %w {
// CHECK-SAME:    : (tensor<1x3x8x8xf32>, tensor<8x3x1x1xf32>) -> tensor<1x1x8x8x8xf32>
// CHECK-NEXT:  glow.tanh %{{.*}} : (tensor<1x1x8x8x8xf32>)
// CHECK-NEXT:  glow_cpu.unblock %{{.*}} {layout = "NHWC", channels = 8 : i64}
// CHECK-NEXT:  glow.save %{{.*}} to @y
// CHECK-NOT:   glow.transpose
glow.constant @w = #glow.resource<"w"> : tensor<8x3x1x1xf32>
glow.placeholder @x : tensor<1x3x8x8xf32>
glow.placeholder @y output : tensor<1x8x8x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x3x8x8xf32>
  %w = glow.get @w : tensor<8x3x1x1xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x8x8xf32>
  %l = glow.transpose %c {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %t = glow.tanh %l : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  glow.save %t to @y : tensor<1x8x8x8xf32>
}

// -----

// Interpolation of rows and columns keeps the blocks.
// CHECK:       %[[R:.*]] = glow.resize %{{.*}} {mode = "linear", {{.*}}sizes = array<i64: 1, 2, 8, 6, 8>} : (tensor<1x2x4x4x8xf32>) -> tensor<1x2x8x6x8xf32>
// CHECK-NEXT:  glow_cpu.unblock %[[R]] {channels = 12 : i64}
glow.constant @w = #glow.resource<"w"> : tensor<12x8x1x1xf32>
glow.placeholder @x : tensor<1x8x4x4xf32>
glow.placeholder @y output : tensor<1x12x8x6xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x8x4x4xf32>
  %w = glow.get @w : tensor<12x8x1x1xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>, tensor<12x8x1x1xf32>) -> tensor<1x12x4x4xf32>
  %r = glow.resize %c {sizes = array<i64: 1, 12, 8, 6>, mode = "linear", scales = array<f64: 1.0, 1.0, 2.0, 1.5>} : (tensor<1x12x4x4xf32>) -> tensor<1x12x8x6xf32>
  glow.save %r to @y : tensor<1x12x8x6xf32>
}

// -----

// What comes from channels last is blocked from there: nothing is transposed.
// CHECK:       %[[P:.*]] = glow.reshape %x : (tensor<1x16x8xf32>) -> tensor<1x4x4x8xf32>
// CHECK-NEXT:  %[[B:.*]] = glow_cpu.block %[[P]] {layout = "NHWC", lanes = 8 : i64} : (tensor<1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
// CHECK-NEXT:  glow_cpu.conv %[[B]], %w
glow.constant @w = #glow.resource<"w"> : tensor<8x8x1x1xf32>
glow.placeholder @x : tensor<1x16x8xf32>
glow.placeholder @y output : tensor<1x8x4x4xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x16x8xf32>
  %w = glow.get @w : tensor<8x8x1x1xf32>
  %t = glow.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<1x16x8xf32>) -> tensor<1x8x16xf32>
  %r = glow.reshape %t : (tensor<1x8x16xf32>) -> tensor<1x8x4x4xf32>
  %c = glow.conv %r, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x4x4xf32>
  glow.save %c to @y : tensor<1x8x4x4xf32>
}

// -----

// Channels that do not fill blocks are joined in the plain form.
// CHECK:       glow_cpu.unblock %{{.*}} {channels = 12 : i64}
// CHECK:       glow.concat %{{.*}}, %{{.*}} {axis = 1 : i64} : (tensor<1x12x4x4xf32>, tensor<1x8x4x4xf32>)
glow.constant @w = #glow.resource<"w"> : tensor<12x8x1x1xf32>
glow.placeholder @x : tensor<1x8x4x4xf32>
glow.placeholder @y output : tensor<1x20x4x4xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x8x4x4xf32>
  %w = glow.get @w : tensor<12x8x1x1xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>, tensor<12x8x1x1xf32>) -> tensor<1x12x4x4xf32>
  %j = glow.concat %c, %x {axis = 1 : i64} : (tensor<1x12x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x20x4x4xf32>
  glow.save %j to @y : tensor<1x20x4x4xf32>
}

// -----

// A filter that is only known at run time leaves a convolution plain whose blocks it would not fill.
// CHECK:       glow.conv
// CHECK-NOT:   glow_cpu
glow.placeholder @w : tensor<4x8x1x1xf32>
glow.placeholder @x : tensor<1x8x4x4xf32>
glow.placeholder @y output : tensor<1x4x4x4xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x8x4x4xf32>
  %w = glow.get @w : tensor<4x8x1x1xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x4x4xf32>, tensor<4x8x1x1xf32>) -> tensor<1x4x4x4xf32>
  glow.save %c to @y : tensor<1x4x4x4xf32>
}

// -----

// Few output channels stay plain: the image is padded and lanes are pixels.
// CHECK:       %[[PAD:.*]] = glow.pad %x {pads = array<i64: 0, 0, 1, 1, 0, 0, 1, 1>} : (tensor<1x16x8x8xf32>) -> tensor<1x16x10x10xf32>
// CHECK-NEXT:  %[[P:.*]] = glow_cpu.plane_conv %[[PAD]], %w
// CHECK-NEXT:  glow.save %[[P]] to @y
glow.constant @w = #glow.resource<"w"> : tensor<1x16x3x3xf32>
glow.placeholder @x : tensor<1x16x8x8xf32>
glow.placeholder @y output : tensor<1x1x8x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x16x8x8xf32>
  %w = glow.get @w : tensor<1x16x3x3xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<1x16x3x3xf32>) -> tensor<1x1x8x8xf32>
  glow.save %c to @y : tensor<1x1x8x8xf32>
}

// -----

// A strided 1x1 convolution reads its pixels side by side.
// CHECK:       %[[S:.*]] = glow.slice %{{.*}} {starts = array<i64: 0, 0, 0, 0, 0>, ends = array<i64: 1, 2, 8, 8, 8>, steps = array<i64: 1, 1, 2, 2, 1>}
// CHECK-NEXT:  glow_cpu.conv %[[S]], %w {lanes = 8 : i64, strides = array<i64: 1, 1>
glow.constant @w = #glow.resource<"w"> : tensor<16x16x1x1xf32>
glow.placeholder @x : tensor<1x16x8x8xf32>
glow.placeholder @y output : tensor<1x16x4x4xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x16x8x8xf32>
  %w = glow.get @w : tensor<16x16x1x1xf32>
  %c = glow.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
  glow.save %c to @y : tensor<1x16x4x4xf32>
}

// -----

// A transposed convolution is one of stride 1 that makes all phases of the stride, which then interleave.
// CHECK:       %[[Y:.*]] = glow_cpu.conv %{{.*}}, %{{.*}}, %{{.*}} {
// CHECK-SAME:    pads = array<i64: 0, 0, 0, 0>
// CHECK-SAME:    (tensor<1x1x4x4x8xf32>, tensor<32x8x1x1xf32>, tensor<32xf32>) -> tensor<1x4x4x4x8xf32>
// CHECK-NEXT:  %[[SPLIT:.*]] = glow.reshape %[[Y]] : (tensor<1x4x4x4x8xf32>) -> tensor<1x2x2x1x4x4x8xf32>
// CHECK-NEXT:  %[[MOVED:.*]] = glow.transpose %[[SPLIT]] {permutation = array<i64: 0, 3, 4, 1, 5, 2, 6>}
// CHECK-NEXT:  glow.reshape %[[MOVED]] : (tensor<1x1x4x2x4x2x8xf32>) -> tensor<1x1x8x8x8xf32>
glow.placeholder @x : tensor<1x8x4x4xf32>
glow.placeholder @y output : tensor<1x8x8x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x8x4x4xf32>
  %w = glow.splat {value = 1.0} : () -> tensor<8x8x2x2xf32>
  %c = glow.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, output_pads = array<i64: 0, 0>} : (tensor<1x8x4x4xf32>, tensor<8x8x2x2xf32>) -> tensor<1x8x8x8xf32>
  glow.save %c to @y : tensor<1x8x8x8xf32>
}

// -----

// Where the taps that a phase lacks would cost more, each phase is a convolution of its own window.
// CHECK-LABEL: glow.func @apart
// CHECK:       glow_cpu.conv {{.*}}pads = array<i64: 0, 0, 0, 0>{{.*}}tensor<64x64x1x1xf32>
// CHECK:       glow_cpu.conv {{.*}}pads = array<i64: 0, 0, 0, 1>{{.*}}tensor<64x64x1x2xf32>
// CHECK:       glow_cpu.conv {{.*}}pads = array<i64: 0, 0, 1, 0>{{.*}}tensor<64x64x2x1xf32>
// CHECK:       glow_cpu.conv {{.*}}pads = array<i64: 0, 0, 1, 1>{{.*}}tensor<64x64x2x2xf32>
// CHECK-NEXT:  glow.concat
// CHECK-NEXT:  glow.reshape
// CHECK-NEXT:  glow.transpose
glow.placeholder @x : tensor<1x64x4x4xf32>
glow.placeholder @y output : tensor<1x64x8x8xf32>
glow.func @apart {
  %x = glow.get @x : tensor<1x64x4x4xf32>
  %w = glow.splat {value = 1.0} : () -> tensor<64x64x3x3xf32>
  %c = glow.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, output_pads = array<i64: 1, 1>} : (tensor<1x64x4x4xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x8x8xf32>
  glow.save %c to @y : tensor<1x64x8x8xf32>
}

// -----

// A result that stays plain is blocked for one reader and read as it is by the others.
// CHECK-LABEL: glow.func @plain_and_blocked
// CHECK:       %[[P:.*]] = glow_cpu.plane_conv %x, %w
// CHECK:       %[[B:.*]] = glow_cpu.block %[[P]]
// CHECK:       glow_cpu.conv %[[B]], %d {algorithm = "depthwise"
// CHECK:       glow.save %[[P]] to @y
glow.placeholder @x : tensor<1x16x4x32xf32>
glow.constant @w = dense<1.0> : tensor<4x16x1x1xf32>
glow.constant @d = dense<1.0> : tensor<4x1x3x3xf32>
glow.placeholder @y output : tensor<1x4x4x32xf32>
glow.placeholder @z output : tensor<1x4x4x32xf32>
glow.func @plain_and_blocked {
  %x = glow.get @x : tensor<1x16x4x32xf32>
  %w = glow.get @w : tensor<4x16x1x1xf32>
  %d = glow.get @d : tensor<4x1x3x3xf32>
  %0 = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x4x32xf32>, tensor<4x16x1x1xf32>) -> tensor<1x4x4x32xf32>
  %1 = glow.conv %0, %d {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 4 : i64} : (tensor<1x4x4x32xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x4x32xf32>
  glow.save %0 to @y : tensor<1x4x4x32xf32>
  glow.save %1 to @z : tensor<1x4x4x32xf32>
}

// -----

// Few channels of a volume: the planes under the filter become channels of one convolution.
// CHECK:       %[[X:.*]] = glow.concat %{{.*}}, %{{.*}} {axis = 2 : i64} : (tensor<1x4x2x8x8xf32>, tensor<1x4x2x8x8xf32>) -> tensor<1x4x4x8x8xf32>
// CHECK-NEXT:  %[[IMAGE:.*]] = glow.reshape %[[X]] : (tensor<1x4x4x8x8xf32>) -> tensor<4x4x8x8xf32>
// CHECK:       glow_cpu.conv %[[IMAGE]], %{{.*}} : (tensor<4x4x8x8xf32>, tensor<16x4x3x3xf32>) -> tensor<4x2x6x6x8xf32>
glow.placeholder @x : tensor<1x2x5x8x8xf32>
glow.placeholder @y output : tensor<1x16x4x6x6xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x2x5x8x8xf32>
  %w = glow.splat {value = 1.0} : () -> tensor<16x2x2x3x3xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1, 1>, pads = array<i64: 0, 0, 0, 0, 0, 0>, dilations = array<i64: 1, 1, 1>} : (tensor<1x2x5x8x8xf32>, tensor<16x2x2x3x3xf32>) -> tensor<1x16x4x6x6xf32>
  glow.save %c to @y : tensor<1x16x4x6x6xf32>
}

// -----

// A join that one convolution reads is one of blocks, and what it joins is blocked before it is interpolated.
// CHECK-LABEL: glow.func @join
// CHECK-DAG:   %[[A:.*]] = glow_cpu.block %a
// CHECK-DAG:   %[[B:.*]] = glow_cpu.block %b
// CHECK-DAG:   %[[R:.*]] = glow.resize %[[B]]
// CHECK:       %[[J:.*]] = glow.concat %[[A]], %[[R]] {axis = 1 : i64} : {{.*}} -> tensor<1x2x4x4x8xf32>
// CHECK-NEXT:  glow_cpu.conv %[[J]]
glow.placeholder @a : tensor<1x8x4x4xf32>
glow.placeholder @b : tensor<1x8x2x2xf32>
glow.constant @w = dense<1.0> : tensor<8x16x1x1xf32>
glow.placeholder @y output : tensor<1x8x4x4xf32>
glow.func @join {
  %a = glow.get @a : tensor<1x8x4x4xf32>
  %b = glow.get @b : tensor<1x8x2x2xf32>
  %w = glow.get @w : tensor<8x16x1x1xf32>
  %r = glow.resize %b {sizes = array<i64: 1, 8, 4, 4>, scales = array<f64: 1.0, 1.0, 2.0, 2.0>} : (tensor<1x8x2x2xf32>) -> tensor<1x8x4x4xf32>
  %j = glow.concat %a, %r {axis = 1 : i64} : (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x16x4x4xf32>
  %c = glow.conv %j, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x4x4xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x4x4xf32>
  glow.save %c to @y : tensor<1x8x4x4xf32>
}
