// RUN: glow-opt %s -p glow-cpu-attention --split-input-file | filecheck %s

// Scale, mask and the transposes of heads are part of the kernel.
// CHECK:       %[[Y:.*]] = glow_cpu.attention %q, %k, %v, %mask {q_order = array<i64: 0, 2, 1, 3>, k_order = array<i64: 0, 2, 1, 3>, v_order = array<i64: 0, 2, 1, 3>, order = array<i64: 0, 2, 1, 3>, scale = 1.250000e-01
// CHECK-SAME:    : (tensor<1x12x6x8xf32>, tensor<1x12x6x8xf32>, tensor<1x12x6x8xf32>, tensor<1x1x1x12xf32>) -> tensor<1x12x6x8xf32>
// CHECK-NEXT:  glow.save %[[Y]] to @y
glow.placeholder @q : tensor<1x12x6x8xf32>
glow.placeholder @k : tensor<1x12x6x8xf32>
glow.placeholder @v : tensor<1x12x6x8xf32>
glow.placeholder @mask : tensor<1x1x1x12xf32>
glow.placeholder @y output : tensor<1x12x6x8xf32>
glow.func @main {
  %q = glow.get @q : tensor<1x12x6x8xf32>
  %k = glow.get @k : tensor<1x12x6x8xf32>
  %v = glow.get @v : tensor<1x12x6x8xf32>
  %mask = glow.get @mask : tensor<1x1x1x12xf32>
  %a = glow.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x12x6x8xf32>) -> tensor<1x6x12x8xf32>
  %b = glow.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x12x6x8xf32>) -> tensor<1x6x8x12xf32>
  %c = glow.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x12x6x8xf32>) -> tensor<1x6x12x8xf32>
  %p = glow_cpu.gemm %a, %b {scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x6x12x8xf32>, tensor<1x6x8x12xf32>) -> tensor<1x6x12x12xf32>
  %m = glow.add %p, %mask : (tensor<1x6x12x12xf32>, tensor<1x1x1x12xf32>) -> tensor<1x6x12x12xf32>
  %s = glow.softmax %m {axis = 3 : i64} : (tensor<1x6x12x12xf32>) -> tensor<1x6x12x12xf32>
  %r = glow_cpu.gemm %s, %c {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x6x12x12xf32>, tensor<1x6x12x8xf32>) -> tensor<1x6x12x8xf32>
  %t = glow.transpose %r {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x12x8xf32>) -> tensor<1x12x6x8xf32>
  glow.save %t to @y : tensor<1x12x6x8xf32>
}

// -----

// Other ranks are heads of a batch; keys may lie as rows or as columns.
// CHECK:       glow_cpu.attention %{{.*}}, %{{.*}}, %{{.*}} {k_order = array<i64: 0, 1, 3, 2>
// CHECK-SAME:    : (tensor<1x5x12x8xf32>, tensor<1x5x8x12xf32>, tensor<1x5x12x7xf32>) -> tensor<1x5x12x7xf32>
glow.placeholder @q : tensor<5x12x8xf32>
glow.placeholder @k : tensor<5x8x12xf32>
glow.placeholder @v : tensor<5x12x7xf32>
glow.placeholder @y output : tensor<5x12x7xf32>
glow.func @main {
  %q = glow.get @q : tensor<5x12x8xf32>
  %k = glow.get @k : tensor<5x8x12xf32>
  %v = glow.get @v : tensor<5x12x7xf32>
  %p = glow_cpu.gemm %q, %k {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<5x12x8xf32>, tensor<5x8x12xf32>) -> tensor<5x12x12xf32>
  %s = glow.softmax %p {axis = 2 : i64} : (tensor<5x12x12xf32>) -> tensor<5x12x12xf32>
  %r = glow_cpu.gemm %s, %v {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<5x12x12xf32>, tensor<5x12x7xf32>) -> tensor<5x12x7xf32>
  glow.save %r to @y : tensor<5x12x7xf32>
}

// -----

// A softmax along another axis, or one that is read elsewhere, stays as it is.
// CHECK:       glow.softmax %{{.*}} {axis = 0 : i64}
// CHECK:       glow.softmax %{{.*}} {axis = 1 : i64}
// CHECK-NOT:   glow_cpu.attention
glow.placeholder @q : tensor<12x8xf32>
glow.placeholder @y output : tensor<12x8xf32>
glow.placeholder @z output : tensor<12x8xf32>
glow.placeholder @p output : tensor<12x12xf32>
glow.func @main {
  %q = glow.get @q : tensor<12x8xf32>
  %p = glow_cpu.gemm %q, %q {transpose_b = true, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<12x8xf32>, tensor<12x8xf32>) -> tensor<12x12xf32>
  %s = glow.softmax %p {axis = 0 : i64} : (tensor<12x12xf32>) -> tensor<12x12xf32>
  %r = glow_cpu.gemm %s, %q {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<12x12xf32>, tensor<12x8xf32>) -> tensor<12x8xf32>
  glow.save %r to @y : tensor<12x8xf32>
  %b = glow_cpu.gemm %q, %q {transpose_b = true, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<12x8xf32>, tensor<12x8xf32>) -> tensor<12x12xf32>
  %t = glow.softmax %b {axis = 1 : i64} : (tensor<12x12xf32>) -> tensor<12x12xf32>
  %u = glow_cpu.gemm %t, %q {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<12x12xf32>, tensor<12x8xf32>) -> tensor<12x8xf32>
  glow.save %u to @z : tensor<12x8xf32>
  glow.save %t to @p : tensor<12x12xf32>
}

// -----

// The first keys and values of more are read where they lie; few rows read keys row by row only.
// CHECK:       glow.placeholder @t
// CHECK:       glow_cpu.attention %q, %k, %v {places = array<i64: 12>}
// CHECK-NOT:   glow_cpu.attention
// CHECK:       glow.softmax
glow.placeholder @q : tensor<1x2x3x8xf32>
glow.placeholder @k : tensor<1x2x20x8xf32>
glow.placeholder @v : tensor<1x2x20x8xf32>
glow.placeholder @t : tensor<1x2x8x12xf32>
glow.placeholder @y output : tensor<1x2x3x8xf32>
glow.placeholder @z output : tensor<1x2x3x8xf32>
glow.func @main {
  %q = glow.get @q : tensor<1x2x3x8xf32>
  %k = glow.get @k : tensor<1x2x20x8xf32>
  %v = glow.get @v : tensor<1x2x20x8xf32>
  %t = glow.get @t : tensor<1x2x8x12xf32>
  %a = glow.slice %k {starts = array<i64: 0, 0, 0, 0>, ends = array<i64: 1, 2, 12, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x20x8xf32>) -> tensor<1x2x12x8xf32>
  %b = glow.slice %v {starts = array<i64: 0, 0, 0, 0>, ends = array<i64: 1, 2, 12, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x20x8xf32>) -> tensor<1x2x12x8xf32>
  %p = glow_cpu.gemm %q, %a {transpose_b = true, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x2x3x8xf32>, tensor<1x2x12x8xf32>) -> tensor<1x2x3x12xf32>
  %s = glow.softmax %p {axis = 3 : i64} : (tensor<1x2x3x12xf32>) -> tensor<1x2x3x12xf32>
  %r = glow_cpu.gemm %s, %b {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x2x3x12xf32>, tensor<1x2x12x8xf32>) -> tensor<1x2x3x8xf32>
  glow.save %r to @y : tensor<1x2x3x8xf32>
  %c = glow_cpu.gemm %q, %t {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x2x3x8xf32>, tensor<1x2x8x12xf32>) -> tensor<1x2x3x12xf32>
  %e = glow.softmax %c {axis = 3 : i64} : (tensor<1x2x3x12xf32>) -> tensor<1x2x3x12xf32>
  %f = glow_cpu.gemm %e, %b {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<1x2x3x12xf32>, tensor<1x2x12x8xf32>) -> tensor<1x2x3x8xf32>
  glow.save %f to @z : tensor<1x2x3x8xf32>
}

// -----

// Rows without keys stay 0.
// CHECK:       glow_cpu.attention %{{.*}}, %{{.*}}, %{{.*}} {{{.*}}masked = true
glow.placeholder @q : tensor<5x12x8xf32>
glow.placeholder @k : tensor<5x8x12xf32>
glow.placeholder @v : tensor<5x12x7xf32>
glow.placeholder @y output : tensor<5x12x7xf32>
glow.func @main {
  %q = glow.get @q : tensor<5x12x8xf32>
  %k = glow.get @k : tensor<5x8x12xf32>
  %v = glow.get @v : tensor<5x12x7xf32>
  %p = glow_cpu.gemm %q, %k {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<5x12x8xf32>, tensor<5x8x12xf32>) -> tensor<5x12x12xf32>
  %s = glow.softmax %p {masked = true, axis = 2 : i64} : (tensor<5x12x12xf32>) -> tensor<5x12x12xf32>
  %r = glow_cpu.gemm %s, %v {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (tensor<5x12x12xf32>, tensor<5x12x7xf32>) -> tensor<5x12x7xf32>
  glow.save %r to @y : tensor<5x12x7xf32>
}
