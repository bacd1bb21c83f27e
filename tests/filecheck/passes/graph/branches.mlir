// RUN: glow-opt %s -p glow-branches | filecheck %s

glow.constant @v = dense<5.0> : tensor<2x2x3x3xf32>
glow.constant @w = dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
glow.constant @b = dense<[1.0, 2.0]> : tensor<2xf32>
glow.constant @s = dense<[[[10.0]], [[20.0]]]> : tensor<2x1x1xf32>
glow.placeholder @x input : tensor<1x2x4x4xf32>
glow.placeholder @y output : tensor<1x2x4x4xf32>
glow.placeholder @z output : tensor<1x2x4x4xf32>

// Filters, bias and factors are one filter and one bias.
// CHECK: glow.constant @[[W:.*]] = dense<{{.*}}1.100000e+01{{.*}}2.000000e+00{{.*}}3.000000e+00{{.*}}2.400000e+01{{.*}}> : tensor<2x2x1x1xf32>
// CHECK-LABEL: glow.func @factors
glow.func @factors {
  %x = glow.get @x : tensor<1x2x4x4xf32>
  %w = glow.get @w : tensor<2x2x1x1xf32>
  %b = glow.get @b : tensor<2xf32>
  %s = glow.get @s : tensor<2x1x1xf32>
  // CHECK: %[[F:.*]] = glow.get @[[W]]
  // CHECK: %[[C:.*]] = glow.conv %x, %[[F]], %{{.*}} {
  // CHECK-NEXT: glow.save %[[C]]
  %c = glow.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %m = glow.mul %x, %s : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = glow.add %c, %m : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  glow.save %a to @y : tensor<1x2x4x4xf32>
}

// A small filter lies in the middle of a large one; what is not linear in x stays a sum.
// CHECK-LABEL: glow.func @inside
glow.func @inside {
  %x = glow.get @x : tensor<1x2x4x4xf32>
  %v = glow.get @v : tensor<2x2x3x3xf32>
  %w = glow.get @w : tensor<2x2x1x1xf32>
  // CHECK: %[[C:.*]] = glow.conv %x, {{.*}}tensor<2x2x3x3xf32>
  // CHECK-NOT: glow.conv
  // CHECK: glow.add %[[C]], %t
  %c = glow.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  %d = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %t = glow.tanh %x : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %a = glow.add %c, %t : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %e = glow.add %a, %d : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  glow.save %e to @y : tensor<1x2x4x4xf32>
}

// One result is read elsewhere, too.
// CHECK-LABEL: glow.func @keeps
glow.func @keeps {
  %x = glow.get @x : tensor<1x2x4x4xf32>
  %v = glow.get @v : tensor<2x2x3x3xf32>
  %w = glow.get @w : tensor<2x2x1x1xf32>
  // CHECK-COUNT-2: glow.conv
  %c = glow.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  %d = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = glow.add %c, %d : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  glow.save %a to @y : tensor<1x2x4x4xf32>
  glow.save %d to @z : tensor<1x2x4x4xf32>
}
