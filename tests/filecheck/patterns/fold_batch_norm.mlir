// RUN: glow-opt %s -p 'glow-simplify{only=fold_batch_norm}' | filecheck %s

glow.constant @w = dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
glow.constant @s = dense<[[[3.0]], [[4.0]]]> : tensor<2x1x1xf32>
glow.placeholder @x input : tensor<1x1x4x4xf32>
glow.placeholder @y output : tensor<1x2x4x4xf32>
glow.placeholder @z output : tensor<1x2x4x4xf32>

// CHECK: glow.constant {{.*}} = dense<{{.*}}3.000000e+00{{.*}}8.000000e+00{{.*}}> : tensor<2x1x1x1xf32>
// CHECK-LABEL: glow.func @factor
glow.func @factor {
  %x = glow.get @x : tensor<1x1x4x4xf32>
  %w = glow.get @w : tensor<2x1x1x1xf32>
  %s = glow.get @s : tensor<2x1x1xf32>
  // CHECK: [[c:%.*]] = glow.conv
  // CHECK-NEXT: glow.save [[c]]
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = glow.mul %c, %s : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  glow.save %a to @y : tensor<1x2x4x4xf32>
}

// The convolution's own result is read as well.
// CHECK-LABEL: glow.func @keeps_shared
glow.func @keeps_shared {
  %x = glow.get @x : tensor<1x1x4x4xf32>
  %w = glow.get @w : tensor<2x1x1x1xf32>
  %s = glow.get @s : tensor<2x1x1xf32>
  // CHECK: glow.conv
  // CHECK-NEXT: glow.mul
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = glow.mul %c, %s : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  glow.save %a to @y : tensor<1x2x4x4xf32>
  glow.save %c to @z : tensor<1x2x4x4xf32>
}

// A product that is read elsewhere too is there to be read.
// CHECK-LABEL: glow.func @keeps_shared_factor
glow.func @keeps_shared_factor {
  %x = glow.get @rows : tensor<2x2xf32>
  %w = glow.get @weights : tensor<2x2xf32>
  %two = glow.splat {value = 2.0 : f64} : () -> tensor<f32>
  // CHECK: [[m:%.*]] = glow.mul %x
  // CHECK-NEXT: glow.matmul [[m]], %w
  %m = glow.mul %x, %two : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %p = glow.matmul %m, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  glow.save %m to @scaled : tensor<2x2xf32>
  glow.save %p to @product : tensor<2x2xf32>
}
glow.constant @weights = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
glow.placeholder @rows input : tensor<2x2xf32>
glow.placeholder @scaled output : tensor<2x2xf32>
glow.placeholder @product output : tensor<2x2xf32>
