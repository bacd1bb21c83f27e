// RUN: glow-opt %s -p "glow-rebatch{batch=2}" | filecheck %s

glow.placeholder @x input : tensor<4x6xf32>
glow.placeholder @y output : tensor<3x4x2xf32>
glow.placeholder @z output : tensor<4x5xf32>
glow.constant @each = dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
glow.constant @w = #glow.resource<"w"> : tensor<6x5xf32>

// CHECK: glow.placeholder @x input : tensor<2x6xf32>
// CHECK: glow.placeholder @y output : tensor<3x2x2xf32>
// CHECK: glow.placeholder @z output : tensor<2x5xf32>
// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<4x6xf32>
  // Twelve rows of two are three for each sample.
  // CHECK: glow.reshape %x : (tensor<2x6xf32>) -> tensor<6x2xf32>
  %a = glow.reshape %x : (tensor<4x6xf32>) -> tensor<12x2xf32>
  // CHECK: glow.reshape {{.*}} -> tensor<2x3x2xf32>
  %b = glow.reshape %a : (tensor<12x2xf32>) -> tensor<4x3x2xf32>
  // CHECK: glow.transpose {{.*}} -> tensor<3x2x2xf32>
  %c = glow.transpose %b {permutation = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
  glow.save %c to @y : tensor<3x4x2xf32>
  // What has an entry for each sample keeps the first ones; a matrix of the same size stays.
  // CHECK: glow.slice %each {starts = array<i64: 0, 0>, ends = array<i64: 2, 1>, steps = array<i64: 1, 1>}
  // CHECK: glow.mul %x, {{.*}} -> tensor<2x6xf32>
  %each = glow.get @each : tensor<4x1xf32>
  %d = glow.mul %x, %each : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %w = glow.get @w : tensor<6x5xf32>
  // CHECK: glow.matmul {{.*}} : (tensor<2x6xf32>, tensor<6x5xf32>) -> tensor<2x5xf32>
  %e = glow.matmul %d, %w : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  glow.save %e to @z : tensor<4x5xf32>
}
