// RUN: glow-opt %s -p 'glow-simplify{only=normalizations}' | filecheck %s

glow.placeholder @known input : tensor<4x3xf32>
glow.placeholder @vector input : tensor<3xf32>
glow.constant @column = dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
glow.constant @gain = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
glow.constant @factors = dense<[[4.0, 5.0, 6.0]]> : tensor<1x3xf32>
glow.placeholder @normed output : tensor<4x3xf32>
glow.placeholder @x input : tensor<2x4xf32>
glow.placeholder @w input : tensor<2x4xf32>
glow.placeholder @scale input : tensor<4xf32>
glow.placeholder @y output : tensor<2x4xf32>

// CHECK-LABEL: glow.func @layer_norm
glow.func @layer_norm {
  %x = glow.get @x : tensor<2x4xf32>
  %scale = glow.get @scale : tensor<4xf32>
  %eps = glow.splat {value = 1.0e-5 : f64} : () -> tensor<f32>
  // CHECK: [[n:%.*]] = glow.layer_norm %x, %scale {{.*}}axis = 1 : i64
  // CHECK-NEXT: glow.save [[n]]
  %m = glow.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %d = glow.sub %x, %m : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %q = glow.mul %d, %d : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = glow.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %e = glow.add %v, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %r = glow.sqrt %e : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %u = glow.div %d, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %a = glow.mul %u, %scale : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// The variance is that of another tensor.
// CHECK-LABEL: glow.func @keeps_other_variance
glow.func @keeps_other_variance {
  %x = glow.get @x : tensor<2x4xf32>
  %w = glow.get @w : tensor<2x4xf32>
  %eps = glow.splat {value = 1.0e-5 : f64} : () -> tensor<f32>
  // CHECK: glow.div
  %q = glow.mul %w, %w : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = glow.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %e = glow.add %v, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %r = glow.sqrt %e : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %u = glow.div %x, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  glow.save %u to @y : tensor<2x4xf32>
}

// A factor and a summand that are known go into scale and bias; a scale that is not known stays.
// CHECK-LABEL: glow.func @known_parameters
glow.func @known_parameters {
  %x = glow.get @known : tensor<4x3xf32>
  %s = glow.get @gain : tensor<3xf32>
  %f = glow.get @factors : tensor<1x3xf32>
  %h = glow.splat {value = 5.000000e-01 : f64} : () -> tensor<f32>
  // CHECK: [[s:%.*]] = glow.get @scale_1 : tensor<3xf32>
  // CHECK: [[b:%.*]] = glow.get @bias_1 : tensor<3xf32>
  // CHECK: [[n:%.*]] = glow.layer_norm %x, [[s]], [[b]]
  // CHECK: glow.save [[n]]
  %n = glow.layer_norm %x, %s, %s {axis = 1 : i64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %m = glow.mul %n, %f : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %a = glow.add %m, %h : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  glow.save %a to @normed : tensor<4x3xf32>
}

// CHECK-LABEL: glow.func @unknown_parameters
glow.func @unknown_parameters {
  %x = glow.get @known : tensor<4x3xf32>
  %s = glow.get @gain : tensor<3xf32>
  %v = glow.get @vector : tensor<3xf32>
  %c = glow.get @column : tensor<4x1xf32>
  %n = glow.layer_norm %x, %s {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: glow.mul {{.*}} %v
  %m = glow.mul %n, %v : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %o = glow.layer_norm %x, %s {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK: glow.mul {{.*}} %c
  %p = glow.mul %o, %c : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  %a = glow.add %m, %p : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  glow.save %a to @normed : tensor<4x3xf32>
}
