// RUN: glow-opt %s -p "glow-cpu-widen{cpu=haswell}" | filecheck %s
// RUN: glow-opt %s -p "glow-cpu-widen{cpu=znver4}" | filecheck %s
// RUN: glow-opt %s -p "glow-cpu-widen{cpu=sapphirerapids}" | filecheck %s --check-prefix=NATIVE

glow.constant @w = dense<[[1.0, -2.0], [0.5, 1.0]]> : tensor<2x2xf16>
glow.placeholder @x input : tensor<3x2xf16>
glow.placeholder @y output : tensor<3x2xf16>
glow.placeholder @z output : tensor<3x3xf16>
glow.placeholder @f input : tensor<3x2xf32>
glow.placeholder @g output : tensor<3x2xf32>

// Both operators compute in f32, and so do those between.
// CHECK-LABEL: glow.func @main
// CHECK: [[x:%.*]] = glow.cast %x : (tensor<3x2xf16>) -> tensor<3x2xf32>
// CHECK: [[p:%.*]] = glow.matmul [[x]], {{.*}} -> tensor<3x2xf32>
// CHECK: [[y:%.*]] = glow.relu [[p]]
// CHECK-NEXT: glow.cast [[y]] : (tensor<3x2xf32>) -> tensor<3x2xf16>
glow.func @main {
  %x = glow.get @x : tensor<3x2xf16>
  %w = glow.get @w : tensor<2x2xf16>
  %p = glow.matmul %x, %w : (tensor<3x2xf16>, tensor<2x2xf16>) -> tensor<3x2xf16>
  %y = glow.relu %p : (tensor<3x2xf16>) -> tensor<3x2xf16>
  glow.save %y to @y : tensor<3x2xf16>
  %t = glow.transpose %y {permutation = array<i64: 1, 0>} : (tensor<3x2xf16>) -> tensor<2x3xf16>
  %q = glow.matmul %y, %t : (tensor<3x2xf16>, tensor<2x3xf16>) -> tensor<3x3xf16>
  glow.save %q to @z : tensor<3x3xf16>
}

// Products by constant weights have kernels of their own where the CPU computes on f16; what may be read
// only at run time does not.
// NATIVE-LABEL: glow.func @main
// NATIVE: glow.matmul {{.*}} -> tensor<3x2xf16>
// NATIVE-NEXT: glow.relu {{.*}} -> tensor<3x2xf16>
// NATIVE: glow.matmul {{.*}} -> tensor<3x3xf32>
