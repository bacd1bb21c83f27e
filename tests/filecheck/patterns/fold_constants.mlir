// RUN: glow-opt %s -p 'glow-simplify{only=fold_constants}' | filecheck %s

// CHECK: glow.constant @sum = dense<[2.000000e+00, 3.000000e+00]>
// CHECK-NOT: glow.constant @a
glow.constant @a = dense<[1.0, 2.0]> : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %a = glow.get @a : tensor<2xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK: %sum = glow.get @sum
  // CHECK-NEXT: glow.mul %x, %sum
  %sum = glow.add %a, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = glow.mul %x, %sum : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %b to @y : tensor<2xf32>
}

// A few bytes do not become gigabytes.
// CHECK-LABEL: glow.func @keeps_expansion
glow.func @keeps_expansion {
  %b = glow.get @b : tensor<2x1xf32>
  // CHECK: glow.expand
  %c = glow.expand %b : (tensor<2x1xf32>) -> tensor<2x4000000xf32>
  glow.save %c to @z : tensor<2x4000000xf32>
}
glow.constant @b = dense<[[1.0], [2.0]]> : tensor<2x1xf32>
glow.placeholder @z output : tensor<2x4000000xf32>

// Weights of few bits stay packed: kernels read them so.
// CHECK-LABEL: glow.func @keeps_packed
glow.func @keeps_packed {
  %codes = glow.get @codes : tensor<1x1xui8>
  %scales = glow.get @scales : tensor<1x1xf32>
  // CHECK: glow.dequantize_blocks
  %w = glow.dequantize_blocks %codes, %scales {bits = 4 : i64, block = 16 : i64, depth = 2 : i64, point = 2.0 : f64} : (tensor<1x1xui8>, tensor<1x1xf32>) -> tensor<1x2xf32>
  glow.save %w to @unpacked : tensor<1x2xf32>
}
glow.constant @codes = #glow.bits<"0x02", tensor<1x1xui8>>
glow.constant @scales = dense<0.5> : tensor<1x1xf32>
glow.placeholder @unpacked output : tensor<1x2xf32>

// What has no elements is not computed, however large its other axes are.
// CHECK-LABEL: glow.func @without_elements
glow.func @without_elements {
  %e = glow.get @e : tensor<0x34359738368xf32>
  // CHECK-NOT: glow.tanh
  // CHECK: glow.get @{{.*}} : tensor<0x34359738368xf32>
  %t = glow.tanh %e : (tensor<0x34359738368xf32>) -> tensor<0x34359738368xf32>
  glow.save %t to @empty : tensor<0x34359738368xf32>
}
glow.placeholder @e input : tensor<0x34359738368xf32>
glow.placeholder @empty output : tensor<0x34359738368xf32>

// Indices are still looked at.
// CHECK-LABEL: glow.func @keeps_indices
glow.func @keeps_indices {
  %e = glow.get @rows : tensor<5x0xf32>
  %i = glow.get @i : tensor<2xi64>
  // CHECK: glow.gather
  %g = glow.gather %e, %i {axis = 0 : i64} : (tensor<5x0xf32>, tensor<2xi64>) -> tensor<2x0xf32>
  glow.save %g to @gathered : tensor<2x0xf32>
}
glow.placeholder @rows input : tensor<5x0xf32>
glow.placeholder @i input : tensor<2xi64>
glow.placeholder @gathered output : tensor<2x0xf32>
