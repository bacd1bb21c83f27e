// RUN: glow-opt %s -p glow-cpu-widen | filecheck %s

glow.constant @w = dense<[[1.0, -2.0], [0.5, 1.0]]> : tensor<2x2xf16>
glow.placeholder @x input : tensor<3x2xf16>
glow.placeholder @y output : tensor<3x2xf16>
glow.placeholder @f input : tensor<3x2xf32>
glow.placeholder @g output : tensor<3x2xf32>

// Both operators compute in f32, and what is between them is rounded to f16.
// CHECK-LABEL: glow.func @main
// CHECK: [[x:%.*]] = glow.cast %x : (tensor<3x2xf16>) -> tensor<3x2xf32>
// CHECK: [[p:%.*]] = glow.matmul [[x]], {{.*}} -> tensor<3x2xf32>
// CHECK-NEXT: [[n:%.*]] = glow.cast [[p]] : (tensor<3x2xf32>) -> tensor<3x2xf16>
// CHECK-NEXT: [[w:%.*]] = glow.cast [[n]] : (tensor<3x2xf16>) -> tensor<3x2xf32>
// CHECK-NEXT: glow.relu [[w]]
glow.func @main {
  %x = glow.get @x : tensor<3x2xf16>
  %w = glow.get @w : tensor<2x2xf16>
  %p = glow.matmul %x, %w : (tensor<3x2xf16>, tensor<2x2xf16>) -> tensor<3x2xf16>
  %y = glow.relu %p : (tensor<3x2xf16>) -> tensor<3x2xf16>
  glow.save %y to @y : tensor<3x2xf16>
}
