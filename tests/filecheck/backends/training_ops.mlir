// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Packed filters, gradients of filters and of pools round-trip.
glow.placeholder @w : tensor<16x8x3x3xf32>
glow.placeholder @x : tensor<2x1x4x4x8xf32>
glow.placeholder @d : tensor<2x1x2x2x8xf32>
glow.func @main {
  %w = glow.get @w : tensor<16x8x3x3xf32>
  %x = glow.get @x : tensor<2x1x4x4x8xf32>
  %d = glow.get @d : tensor<2x1x2x2x8xf32>
  // CHECK: %0 = glow_cpu.pack_filter %w {tile = 4 : i64, lanes = 8 : i64, width = 16 : i64} : (tensor<16x8x3x3xf32>) -> tensor<36x1x1x8x16xf32>
  %0 = glow_cpu.pack_filter %w {tile = 4 : i64, lanes = 8 : i64, width = 16 : i64} : (tensor<16x8x3x3xf32>) -> tensor<36x1x1x8x16xf32>
  // CHECK: %1 = glow_cpu.pack_filter %w {form = "IOHW", lanes = 8 : i64, width = 8 : i64} : (tensor<16x8x3x3xf32>) -> tensor<1x2x3x3x8x8xf32>
  %1 = glow_cpu.pack_filter %w {form = "IOHW", lanes = 8 : i64, width = 8 : i64} : (tensor<16x8x3x3xf32>) -> tensor<1x2x3x3x8x8xf32>
  // CHECK: %2 = glow_cpu.conv_weights %x, %x {lanes = 8 : i64,
  %2 = glow_cpu.conv_weights %x, %x {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x1x4x4x8xf32>, tensor<2x1x4x4x8xf32>) -> tensor<8x8x3x3xf32>
  // CHECK: %3 = glow_cpu.pool_backward %d, %x {mode = "max",
  %3 = glow_cpu.pool_backward %d, %x {mode = "max", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x1x2x2x8xf32>, tensor<2x1x4x4x8xf32>) -> tensor<2x1x4x4x8xf32>
}

// -----

// expected-error@unknown {{glow_cpu.pool_backward: gradient tensor<2x1x4x4x8xf32> of a pool of tensor<2x1x4x4x8xf32>}}
// CHECK: glow_cpu.pool_backward: gradient tensor<2x1x4x4x8xf32> of a pool of tensor<2x1x4x4x8xf32>
glow.placeholder @x : tensor<2x1x4x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<2x1x4x4x8xf32>
  %0 = glow_cpu.pool_backward %x {mode = "avg", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x1x4x4x8xf32>) -> tensor<2x1x4x4x8xf32>
}

// -----

// expected-error@unknown {{glow_cpu.pack_filter: Winograd tiles of the filter tensor<16x8x1x1xf32>}}
// CHECK: glow_cpu.pack_filter: Winograd tiles of the filter tensor<16x8x1x1xf32>
glow.placeholder @w : tensor<16x8x1x1xf32>
glow.func @main {
  %w = glow.get @w : tensor<16x8x1x1xf32>
  %0 = glow_cpu.pack_filter %w {tile = 2 : i64, lanes = 8 : i64, width = 16 : i64} : (tensor<16x8x1x1xf32>) -> tensor<16x1x1x8x16xf32>
}
