// RUN: glow-opt %s -p glow-cpu-fuse --split-input-file | filecheck %s

// A residual sum and an activation join the convolution, in their order.
// CHECK:       %[[C:.*]] = glow_cpu.conv %x, %w, %r {
// CHECK-NEXT:  ^bb0(%[[SUM:.*]]: tensor<f32>, %[[R:.*]]: tensor<f32>):
// CHECK-NEXT:    %[[H:.*]] = glow.hard_swish %[[SUM]]
// CHECK-NEXT:    %[[A:.*]] = glow.add %[[H]], %[[R]]
// CHECK-NEXT:    %[[L:.*]] = glow.clip %[[A]] {min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}
// CHECK-NEXT:    glow_cpu.yield %[[L]] : tensor<f32>
// CHECK-NEXT:  }
// CHECK-NEXT:  glow.save %[[C]] to @y
glow.constant @w = #glow.resource<"w"> : tensor<8x8x1x1xf32>
glow.placeholder @x : tensor<1x1x4x4x8xf32>
glow.placeholder @r : tensor<1x1x4x4x8xf32>
glow.placeholder @y output : tensor<1x1x4x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x1x4x4x8xf32>
  %r = glow.get @r : tensor<1x1x4x4x8xf32>
  %w = glow.get @w : tensor<8x8x1x1xf32>
  %c = glow_cpu.conv %x, %w {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x1x4x4x8xf32>
  %h = glow.hard_swish %c : (tensor<1x1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
  %a = glow.add %r, %h : (tensor<1x1x4x4x8xf32>, tensor<1x1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
  %l = glow.clip %a {min = 0.0 : f64, max = 6.0 : f64} : (tensor<1x1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
  glow.save %l to @y : tensor<1x1x4x4x8xf32>
}

// -----

// A convolution with a second reader stays apart.
// CHECK:       %[[C:.*]] = glow_cpu.conv
// CHECK-NEXT:  %[[R:.*]] = glow.relu %[[C]]
// CHECK-NEXT:  glow.mul %[[C]], %[[R]]
glow.constant @w = #glow.resource<"w"> : tensor<8x8x1x1xf32>
glow.placeholder @x : tensor<1x1x4x4x8xf32>
glow.placeholder @y output : tensor<1x1x4x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x1x4x4x8xf32>
  %w = glow.get @w : tensor<8x8x1x1xf32>
  %c = glow_cpu.conv %x, %w {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x1x4x4x8xf32>
  %r = glow.relu %c : (tensor<1x1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
  %m = glow.mul %c, %r : (tensor<1x1x4x4x8xf32>, tensor<1x1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
  glow.save %m to @y : tensor<1x1x4x4x8xf32>
}

// -----

// Products take transposed operands, a scale, a bias and what follows.
// CHECK:       %[[G:.*]] = glow_cpu.gemm %a, %b, %v {transpose_b = true, scale = 5.000000e-01 : f64
// CHECK-NEXT:  ^bb0(%[[SUM:.*]]: tensor<f32>):
// CHECK-NEXT:    %[[R:.*]] = glow.relu %[[SUM]]
// CHECK-NEXT:    glow_cpu.yield %[[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  glow.save %[[G]] to @y
glow.placeholder @a : tensor<4x3xf32>
glow.placeholder @b : tensor<5x3xf32>
glow.placeholder @v : tensor<5xf32>
glow.placeholder @y output : tensor<4x5xf32>
glow.func @main {
  %a = glow.get @a : tensor<4x3xf32>
  %b = glow.get @b : tensor<5x3xf32>
  %v = glow.get @v : tensor<5xf32>
  %h = glow.splat {value = 0.5 : f64} : () -> tensor<f32>
  %t = glow.transpose %b {permutation = array<i64: 1, 0>} : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %m = glow.matmul %a, %t : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %s = glow.mul %m, %h : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
  %c = glow.add %s, %v : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  %r = glow.relu %c : (tensor<4x5xf32>) -> tensor<4x5xf32>
  glow.save %r to @y : tensor<4x5xf32>
}

// -----

// What stands behind movements of a kernel's result is taken before them; numbers stand in the body.
// CHECK:       %[[Y:.*]] = glow_cpu.gemm %{{.*}}, %w {
// CHECK-NEXT:  ^bb0(%[[SUM:.*]]: tensor<f32>):
// CHECK-NEXT:    %[[R:.*]] = glow.relu %[[SUM]]
// CHECK-NEXT:    %[[TWO:.*]] = glow.splat {value = 2.000000e+00 : f64}
// CHECK-NEXT:    %[[M:.*]] = glow.mul %[[R]], %[[TWO]]
// CHECK-NEXT:    glow_cpu.yield %[[M]]
// CHECK-NEXT:  }
// CHECK-NEXT:  %[[SPLIT:.*]] = glow.reshape %[[Y]]
// CHECK-NEXT:  %[[MOVED:.*]] = glow.transpose %[[SPLIT]]
// CHECK-NEXT:  glow.save %[[MOVED]] to @y
glow.constant @w = #glow.resource<"w"> : tensor<4x6xf32>
glow.placeholder @x : tensor<5x4xf32>
glow.placeholder @y output : tensor<2x5x3xf32>
glow.func @main {
  %x = glow.get @x : tensor<5x4xf32>
  %w = glow.get @w : tensor<4x6xf32>
  %two = glow.splat {value = 2.0} : () -> tensor<2x5x3xf32>
  %p = glow.matmul %x, %w : (tensor<5x4xf32>, tensor<4x6xf32>) -> tensor<5x6xf32>
  %s = glow.reshape %p : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  %t = glow.transpose %s {permutation = array<i64: 1, 0, 2>} : (tensor<5x2x3xf32>) -> tensor<2x5x3xf32>
  %r = glow.relu %t : (tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %m = glow.mul %r, %two : (tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  glow.save %m to @y : tensor<2x5x3xf32>
}

// -----

// A transposed product is that of the transposed operands the other way round.
// CHECK:       %[[T:.*]] = glow_cpu.gemm %b, %a {transpose_a = true
// CHECK-SAME:  -> tensor<5x4xf32>
// CHECK-NEXT:  glow.save %[[T]] to @y
glow.placeholder @a : tensor<3x4xf32>
glow.placeholder @b : tensor<3x5xf32>
glow.placeholder @y output : tensor<5x4xf32>
glow.func @main {
  %a = glow.get @a : tensor<3x4xf32>
  %b = glow.get @b : tensor<3x5xf32>
  %u = glow.transpose %a {permutation = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %m = glow.matmul %u, %b : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %t = glow.transpose %m {permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  glow.save %t to @y : tensor<5x4xf32>
}

// -----

// An activation of parts that were joined happens in each of them.
// CHECK:       %[[A:.*]] = glow_cpu.conv %x, %v {
// CHECK:         glow.relu
// CHECK:       %[[B:.*]] = glow_cpu.conv %x, %w {
// CHECK:         glow.relu
// CHECK:       glow.concat %[[A]], %[[B]] {axis = 0 : i64}
// CHECK-NOT:   glow.relu
glow.constant @v = #glow.resource<"v"> : tensor<8x8x1x1xf32>
glow.constant @w = #glow.resource<"w"> : tensor<8x8x1x1xf32>
glow.placeholder @x : tensor<1x1x4x4x8xf32>
glow.placeholder @y output : tensor<2x1x4x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x1x4x4x8xf32>
  %v = glow.get @v : tensor<8x8x1x1xf32>
  %w = glow.get @w : tensor<8x8x1x1xf32>
  %a = glow_cpu.conv %x, %v {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x1x4x4x8xf32>
  %b = glow_cpu.conv %x, %w {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x1x4x4x8xf32>
  %c = glow.concat %a, %b {axis = 0 : i64} : (tensor<1x1x4x4x8xf32>, tensor<1x1x4x4x8xf32>) -> tensor<2x1x4x4x8xf32>
  %r = glow.relu %c : (tensor<2x1x4x4x8xf32>) -> tensor<2x1x4x4x8xf32>
  glow.save %r to @y : tensor<2x1x4x4x8xf32>
}

// -----

// Weights of few bits stay packed in the product that reads them; what else reads them takes floats.
// CHECK:       %[[G:.*]] = glow_cpu.block_gemm %x, %codes, %scales, %b {
// CHECK-SAME:    point = 8.000000e+00 : f64, bits = 4 : i64, block = 16 : i64, depth = 32 : i64
// CHECK-NEXT:  ^bb0(%[[SUM:.*]]: tensor<f32>):
// CHECK-NEXT:    %[[R:.*]] = glow.relu %[[SUM]]
// CHECK-NEXT:    glow_cpu.yield %[[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  glow.save %[[G]] to @y
// CHECK-NEXT:  glow.save %{{.*}} to @z
glow.constant @codes = dense<7> : tensor<8x16xui8>
glow.constant @scales = dense<0.5> : tensor<8x2xf32>
glow.constant @b = #glow.resource<"b"> : tensor<8xf32>
glow.placeholder @x : tensor<3x32xf32>
glow.placeholder @y output : tensor<3x8xf32>
glow.placeholder @z output : tensor<8x32xf32>
glow.func @main {
  %x = glow.get @x : tensor<3x32xf32>
  %codes = glow.get @codes : tensor<8x16xui8>
  %scales = glow.get @scales : tensor<8x2xf32>
  %b = glow.get @b : tensor<8xf32>
  %w = glow.dequantize_blocks %codes, %scales {bits = 4 : i64, block = 16 : i64, depth = 32 : i64, point = 8.0 : f64} : (tensor<8x16xui8>, tensor<8x2xf32>) -> tensor<8x32xf32>
  %t = glow.transpose %w {permutation = array<i64: 1, 0>} : (tensor<8x32xf32>) -> tensor<32x8xf32>
  %p = glow.fully_connected %x, %t, %b : (tensor<3x32xf32>, tensor<32x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %r = glow.relu %p : (tensor<3x8xf32>) -> tensor<3x8xf32>
  glow.save %r to @y : tensor<3x8xf32>
  glow.save %w to @z : tensor<8x32xf32>
}

// -----

// Factors and offsets of a convolution's channels enter its weights and its bias, whichever side they stand on.
// CHECK:       glow.constant @[[BIAS:.*]] = dense<[1.000000e+01, -1.400000e+01, 2.000000e+00, 2.000000e+00, 2.000000e+00, 2.000000e+00, 2.000000e+00, 2.000000e+00]>
// CHECK-NEXT:  glow.constant @filter = dense<{{.*}}6.000000e+00{{.*}}-4.000000e+00{{.*}}2.000000e+00{{.*}}> : tensor<8x1x1x1xf32>
// CHECK:       %[[F:.*]] = glow.get @filter
// CHECK-NEXT:  %[[B:.*]] = glow.get @[[BIAS]]
// CHECK-NEXT:  %[[C:.*]] = glow_cpu.conv %x, %[[F]], %[[B]] {
// CHECK-NEXT:  glow.save %[[C]] to @y
glow.constant @w = dense<2.0> : tensor<8x1x1x1xf32>
glow.constant @b = dense<[1.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<8xf32>
glow.constant @s = dense<[[[[[3.0, -2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]]]]> : tensor<1x1x1x1x8xf32>
glow.constant @t = dense<[[[[[-7.0, 6.0, -2.0, -2.0, -2.0, -2.0, -2.0, -2.0]]]]]> : tensor<1x1x1x1x8xf32>
glow.placeholder @x : tensor<1x1x4x4x8xf32>
glow.placeholder @y output : tensor<1x1x4x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x1x4x4x8xf32>
  %w = glow.get @w : tensor<8x1x1x1xf32>
  %b = glow.get @b : tensor<8xf32>
  %s = glow.get @s : tensor<1x1x1x1x8xf32>
  %t = glow.get @t : tensor<1x1x1x1x8xf32>
  %c = glow_cpu.conv %x, %w, %b {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<1x1x4x4x8xf32>, tensor<8x1x1x1xf32>, tensor<8xf32>) -> tensor<1x1x4x4x8xf32>
  %m = glow.mul %s, %c : (tensor<1x1x1x1x8xf32>, tensor<1x1x4x4x8xf32>) -> tensor<1x1x4x4x8xf32>
  %a = glow.sub %m, %t : (tensor<1x1x4x4x8xf32>, tensor<1x1x1x1x8xf32>) -> tensor<1x1x4x4x8xf32>
  glow.save %a to @y : tensor<1x1x4x4x8xf32>
}

// -----

// A quotient by zero, and what is no number a channel, stay.
// CHECK:       %[[C:.*]] = glow_cpu.conv %x, %w {
// CHECK-NEXT:  %[[D:.*]] = glow.div %[[C]], %z
// CHECK-NEXT:  glow.add %[[D]], %t
glow.constant @w = dense<2.0> : tensor<8x1x1x1xf32>
glow.constant @z = dense<[[[[[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]]]]> : tensor<1x1x1x1x8xf32>
glow.constant @t = dense<[[[[[1.0]], [[2.0]]]]]> : tensor<1x1x2x1x1xf32>
glow.placeholder @x : tensor<1x1x2x4x8xf32>
glow.placeholder @y output : tensor<1x1x2x4x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x1x2x4x8xf32>
  %w = glow.get @w : tensor<8x1x1x1xf32>
  %z = glow.get @z : tensor<1x1x1x1x8xf32>
  %t = glow.get @t : tensor<1x1x2x1x1xf32>
  %c = glow_cpu.conv %x, %w {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<1x1x2x4x8xf32>, tensor<8x1x1x1xf32>) -> tensor<1x1x2x4x8xf32>
  %m = glow.div %c, %z : (tensor<1x1x2x4x8xf32>, tensor<1x1x1x1x8xf32>) -> tensor<1x1x2x4x8xf32>
  %a = glow.add %m, %t : (tensor<1x1x2x4x8xf32>, tensor<1x1x2x1x1xf32>) -> tensor<1x1x2x4x8xf32>
  glow.save %a to @y : tensor<1x1x2x4x8xf32>
}

// -----

// Weights of few bits that no product takes are a constant.
// CHECK:       glow.constant @weights = dense<{{.*}}0.000000e+00, -1.000000e+00{{.*}}> : tensor<1x2xf32>
// CHECK-NOT:   glow.dequantize_blocks
glow.constant @codes = #glow.bits<"0x02", tensor<1x1xui8>>
glow.constant @scales = dense<0.5> : tensor<1x1xf32>
glow.placeholder @y output : tensor<1x2xf32>
glow.func @main {
  %codes = glow.get @codes : tensor<1x1xui8>
  %scales = glow.get @scales : tensor<1x1xf32>
  %w = glow.dequantize_blocks %codes, %scales {bits = 4 : i64, block = 16 : i64, depth = 2 : i64, point = 2.0 : f64} : (tensor<1x1xui8>, tensor<1x1xf32>) -> tensor<1x2xf32>
  glow.save %w to @y : tensor<1x2xf32>
}
