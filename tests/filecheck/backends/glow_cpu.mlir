// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Layout changes, convolutions, pools and products round-trip.
glow.placeholder @x : tensor<1x20x4x4xf32>
glow.placeholder @w : tensor<24x20x1x1xf32>
glow.placeholder @b : tensor<24xf32>
glow.placeholder @e : tensor<1x3x4x4x8xf32>
glow.placeholder @a : tensor<5x3xf32>
glow.placeholder @p : tensor<1x20x4x12xf32>
glow.placeholder @f : tensor<2x20x1x5xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x20x4x4xf32>
  %w = glow.get @w : tensor<24x20x1x1xf32>
  %b = glow.get @b : tensor<24xf32>
  %e = glow.get @e : tensor<1x3x4x4x8xf32>
  %a = glow.get @a : tensor<5x3xf32>
  %p = glow.get @p : tensor<1x20x4x12xf32>
  %f = glow.get @f : tensor<2x20x1x5xf32>
  // CHECK: %0 = glow_cpu.block %x {lanes = 8 : i64} : (tensor<1x20x4x4xf32>) -> tensor<1x3x4x4x8xf32>
  %0 = glow_cpu.block %x {lanes = 8 : i64} : (tensor<1x20x4x4xf32>) -> tensor<1x3x4x4x8xf32>
  // CHECK: %1 = glow_cpu.conv %0, %w, %b, %e {lanes = 8 : i64,
  // CHECK-NEXT: ^bb0(%[[SUM:.*]]: tensor<f32>, %[[E:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[A:.*]] = glow.add %[[SUM]], %[[E]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   %[[L:.*]] = glow.leaky_relu %[[A]] {alpha = 1.000000e-01 : f64} : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   glow_cpu.yield %[[L]] : tensor<f32>
  // CHECK-NEXT: }
  %1 = glow_cpu.conv %0, %w, %b, %e {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<1x3x4x4x8xf32>, tensor<24x20x1x1xf32>, tensor<24xf32>, tensor<1x3x4x4x8xf32>) -> tensor<1x3x4x4x8xf32> {
  ^bb0(%sum: tensor<f32>, %r: tensor<f32>):
    %s = glow.add %sum, %r : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %l = glow.leaky_relu %s {alpha = 0.1 : f64} : (tensor<f32>) -> tensor<f32>
    glow_cpu.yield %l : tensor<f32>
  }
  // CHECK: %2 = glow_cpu.pool %1 {mode = "avg", kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x3x4x4x8xf32>) -> tensor<1x3x1x1x8xf32>
  %2 = glow_cpu.pool %1 {mode = "avg", kernel = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x3x4x4x8xf32>) -> tensor<1x3x1x1x8xf32>
  // CHECK: %3 = glow_cpu.unblock %2 {layout = "NHWC", channels = 24 : i64} : (tensor<1x3x1x1x8xf32>) -> tensor<1x1x1x24xf32>
  %3 = glow_cpu.unblock %2 {layout = "NHWC", channels = 24 : i64} : (tensor<1x3x1x1x8xf32>) -> tensor<1x1x1x24xf32>
  // CHECK: %4 = glow_cpu.gemm %a, %a {transpose_b = true, scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x5xf32>
  %4 = glow_cpu.gemm %a, %a {transpose_b = true, scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x5xf32>
  // CHECK: %5 = glow_cpu.plane_conv %p, %f {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x20x4x12xf32>, tensor<2x20x1x5xf32>) -> tensor<1x2x4x8xf32>
  %5 = glow_cpu.plane_conv %p, %f {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x20x4x12xf32>, tensor<2x20x1x5xf32>) -> tensor<1x2x4x8xf32>
}

// -----

// expected-error@unknown {{glow_cpu.conv: tensor<1x2x4x4x8xf32> does not have 20 channels}}
// CHECK: glow_cpu.conv: tensor<1x2x4x4x8xf32> does not have 20 channels
glow.placeholder @x : tensor<1x2x4x4x8xf32>
glow.placeholder @w : tensor<24x20x1x1xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x2x4x4x8xf32>
  %w = glow.get @w : tensor<24x20x1x1xf32>
  %0 = glow_cpu.conv %x, %w {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x2x4x4x8xf32>, tensor<24x20x1x1xf32>) -> tensor<1x3x4x4x8xf32>
}

// -----

// expected-error@unknown {{glow_cpu.gemm: its body takes 2 values, there are 1}}
// CHECK: glow_cpu.gemm: its body takes 2 values, there are 1
glow.placeholder @a : tensor<3x3xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x3xf32>
  %0 = glow_cpu.gemm %a, %a {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%sum: tensor<f32>, %e: tensor<f32>):
    %s = glow.add %sum, %e : (tensor<f32>, tensor<f32>) -> tensor<f32>
    glow_cpu.yield %s : tensor<f32>
  }
}

// -----

// expected-error@unknown {{glow_cpu.gemm: its body computes i32, the result is tensor<3x3xf32>}}
// CHECK: glow_cpu.gemm: its body computes i32, the result is tensor<3x3xf32>
glow.placeholder @a : tensor<3x3xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x3xf32>
  %0 = glow_cpu.gemm %a, %a {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%sum: tensor<i32>):
    glow_cpu.yield %sum : tensor<i32>
  }
}

// -----

// expected-error@unknown {{a body has element-wise operators with kernels, not glow.reduce_sum of f32}}
// CHECK: a body has element-wise operators with kernels, not glow.reduce_sum of f32
glow.placeholder @a : tensor<3x3xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x3xf32>
  %0 = glow_cpu.gemm %a, %a {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%sum: tensor<f32>):
    %s = glow.reduce_sum %sum {axes = array<i64>, keepdims = false} : (tensor<f32>) -> tensor<f32>
    glow_cpu.yield %s : tensor<f32>
  }
}

// -----

// expected-error@unknown {{glow.mul: a body may only use its own values}}
// CHECK: glow.mul: a body may only use its own values
glow.placeholder @a : tensor<3x3xf32>
glow.placeholder @f : tensor<f32>
glow.func @main {
  %a = glow.get @a : tensor<3x3xf32>
  %f = glow.get @f : tensor<f32>
  %0 = glow_cpu.gemm %a, %a {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%sum: tensor<f32>):
    %s = glow.mul %sum, %f : (tensor<f32>, tensor<f32>) -> tensor<f32>
    glow_cpu.yield %s : tensor<f32>
  }
}

// -----

// expected-error@unknown {{glow_cpu.stack: its body takes f32, the operands are f32, f32}}
// CHECK: glow_cpu.stack: its body takes f32, the operands are f32, f32
glow.placeholder @a : tensor<3x3xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x3xf32>
  %0 = glow_cpu.stack %a, %a : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%x: tensor<f32>):
    %s = glow.exp %x : (tensor<f32>) -> tensor<f32>
    glow_cpu.yield %s : tensor<f32>
  }
}

// -----

// expected-error@unknown {{a body ends with glow_cpu.yield}}
// CHECK: a body ends with glow_cpu.yield
glow.placeholder @a : tensor<3x3xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x3xf32>
  %0 = glow_cpu.stack %a : (tensor<3x3xf32>) -> tensor<3x3xf32> {
  ^bb0(%x: tensor<f32>):
    %s = glow.exp %x : (tensor<f32>) -> tensor<f32>
    glow_fn.return %s
  }
}

// -----

// expected-error@unknown {{glow_cpu.unblock: 9 channels are not 1 blocks of 8}}
// CHECK: glow_cpu.unblock: 9 channels are not 1 blocks of 8
glow.placeholder @x : tensor<1x1x4x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x1x4x4x8xf32>
  %0 = glow_cpu.unblock %x {channels = 9 : i64} : (tensor<1x1x4x4x8xf32>) -> tensor<1x9x4x4xf32>
}

// -----

// expected-error@unknown {{glow_cpu.block_gemm: tensor<3x16xf32> by tensor<8x16xui8>}}
// CHECK: glow_cpu.block_gemm: tensor<3x16xf32> by tensor<8x16xui8>
glow.placeholder @a : tensor<3x16xf32>
glow.placeholder @codes : tensor<8x16xui8>
glow.placeholder @scales : tensor<8x2xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x16xf32>
  %c = glow.get @codes : tensor<8x16xui8>
  %s = glow.get @scales : tensor<8x2xf32>
  %0 = glow_cpu.block_gemm %a, %c, %s {bits = 4 : i64, block = 16 : i64, depth = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<3x16xf32>, tensor<8x16xui8>, tensor<8x2xf32>) -> tensor<3x8xf32>
}
