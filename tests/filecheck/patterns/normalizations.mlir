// RUN: glow-opt %s -p 'glow-simplify{only=normalizations}' | filecheck %s

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
