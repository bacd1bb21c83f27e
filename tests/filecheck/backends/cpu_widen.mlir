// RUN: glow-opt %s -p "glow-cpu-widen{cpu=haswell}" | filecheck %s
// RUN: glow-opt %s -p "glow-cpu-widen{cpu=znver4}" | filecheck %s
// RUN: glow-opt %s -p "glow-cpu-widen{cpu=sapphirerapids}" | filecheck %s
// RUN: sed s/xf16/xbf16/g %s | glow-opt -p "glow-cpu-widen{cpu=znver4}" | filecheck %s --check-prefix=NATIVE

glow.constant @w = dense<[[1.0, -2.0], [0.5, 1.0]]> : tensor<2x2xf16>
glow.placeholder @x input : tensor<3x2xf16>
glow.placeholder @y output : tensor<3x2xf16>
glow.placeholder @z output : tensor<3x3xf16>
glow.constant @v = dense<1.5> : tensor<1x1x1x1xf16>
glow.placeholder @image input : tensor<1x1x2x2xf16>
glow.placeholder @summed output : tensor<1x1x2x2xf16>

// Both operators compute in f32; what is between them is rounded to f16.
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
  %t = glow.transpose %y {permutation = array<i64: 1, 0>} : (tensor<3x2xf16>) -> tensor<2x3xf16>
  %q = glow.matmul %y, %t : (tensor<3x2xf16>, tensor<2x3xf16>) -> tensor<3x3xf16>
  glow.save %q to @z : tensor<3x3xf16>
}

// Products by constant weights have kernels of their own where the CPU computes on bf16; what may be read
// only at run time does not.
// NATIVE-LABEL: glow.func @main
// NATIVE: glow.matmul {{.*}} -> tensor<3x2xbf16>
// NATIVE-NEXT: glow.relu {{.*}} -> tensor<3x2xbf16>
// NATIVE: glow.matmul {{.*}} -> tensor<3x3xf32>

// Behind a convolution values stay in blocks of f32 channels.
// CHECK-LABEL: glow.func @blocked
// CHECK: [[c:%.*]] = glow.conv {{.*}} -> tensor<1x1x2x2xf32>
// CHECK-NEXT: [[r:%.*]] = glow.relu [[c]]
// CHECK-NEXT: [[s:%.*]] = glow.add [[r]], {{.*}} -> tensor<1x1x2x2xf32>
// CHECK-NEXT: glow.cast [[s]] : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf16>
glow.func @blocked {
  %image = glow.get @image : tensor<1x1x2x2xf16>
  %v = glow.get @v : tensor<1x1x1x1xf16>
  %c = glow.conv %image, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x2x2xf16>, tensor<1x1x1x1xf16>) -> tensor<1x1x2x2xf16>
  %r = glow.relu %c : (tensor<1x1x2x2xf16>) -> tensor<1x1x2x2xf16>
  %s = glow.add %r, %c : (tensor<1x1x2x2xf16>, tensor<1x1x2x2xf16>) -> tensor<1x1x2x2xf16>
  glow.save %s to @summed : tensor<1x1x2x2xf16>
}
