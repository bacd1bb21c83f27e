// RUN: glow-opt %s -p 'glow-layout{backend=cpu cpu=haswell}' | filecheck %s
// RUN: not glow-opt %s -p glow-layout{backend=interpreter} 2>&1 | filecheck %s --check-prefix NONE

// A backend's layout is carried through what says that it keeps blocks; conversions stand at the borders.
// NONE: error: backend interpreter has no blocked_layout()
// CHECK:      glow_cpu.block
// CHECK-NEXT: glow_cpu.conv
// CHECK-NEXT: glow.pad %{{.*}} {{.*}} -> tensor<1x2x9x9x8xf32>
// CHECK-NEXT: glow.slice %{{.*}} {{.*}} -> tensor<1x1x9x9x8xf32>
// CHECK-NEXT: glow.relu
// CHECK-NEXT: glow_cpu.unblock %{{.*}} {channels = 8 : i64}
// CHECK-NEXT: glow.save
glow.constant @w = #glow.resource<"w"> : tensor<16x16x1x1xf32>
glow.placeholder @x : tensor<1x16x8x8xf32>
glow.placeholder @y output : tensor<1x8x9x9xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x16x8x8xf32>
  %w = glow.get @w : tensor<16x16x1x1xf32>
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %p = glow.pad %c {pads = array<i64: 0, 0, 1, 1, 0, 0, 0, 0>} : (tensor<1x16x8x8xf32>) -> tensor<1x16x9x9xf32>
  %s = glow.slice %p {starts = array<i64: 0, 8, 0, 0>, ends = array<i64: 1, 16, 9, 9>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x16x9x9xf32>) -> tensor<1x8x9x9xf32>
  %r = glow.relu %s : (tensor<1x8x9x9xf32>) -> tensor<1x8x9x9xf32>
  glow.save %r to @y : tensor<1x8x9x9xf32>
}
