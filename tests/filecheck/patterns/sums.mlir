// RUN: glow-opt %s -p 'glow-simplify{only=sums},glow-dce' | filecheck %s

glow.placeholder @a input : tensor<8x2xf32>
glow.placeholder @b input : tensor<8x3xf32>
glow.placeholder @big input : tensor<8x5xf32>
glow.placeholder @x input : tensor<3x32x4xf32>
glow.placeholder @w input : tensor<4x6xf32>
glow.placeholder @p input : tensor<2x64xf32>
glow.placeholder @q input : tensor<2x48xf32>
glow.placeholder @y output : tensor<8x5xf32>
glow.placeholder @z output : tensor<64x48xf32>
glow.placeholder @r output : tensor<32x6xf32>

// Parts that cover an axis of zeros are joined.
// CHECK-LABEL: glow.func @parts
glow.func @parts {
  %a = glow.get @a : tensor<8x2xf32>
  %b = glow.get @b : tensor<8x3xf32>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<8x5xf32>
  %i = glow.insert %zero, %b {starts = array<i64: 0, 2>} : (tensor<8x5xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>
  %j = glow.insert %zero, %a {starts = array<i64: 0, 0>} : (tensor<8x5xf32>, tensor<8x2xf32>) -> tensor<8x5xf32>
  // CHECK: glow.concat %a, %b {axis = 1 : i64}
  %s = glow.add %i, %j : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  glow.save %s to @y : tensor<8x5xf32>
}

// Overlapping parts are not.
// CHECK-LABEL: glow.func @overlap
glow.func @overlap {
  %b = glow.get @b : tensor<8x3xf32>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<8x5xf32>
  %i = glow.insert %zero, %b {starts = array<i64: 0, 2>} : (tensor<8x5xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>
  %j = glow.insert %zero, %b {starts = array<i64: 0, 0>} : (tensor<8x5xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>
  // CHECK: glow.add
  %s = glow.add %i, %j : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  glow.save %s to @y : tensor<8x5xf32>
}

// Sums of thin products become one product.
// CHECK-LABEL: glow.func @products
glow.func @products {
  %p = glow.get @p : tensor<2x64xf32>
  %q = glow.get @q : tensor<2x48xf32>
  %e = glow.exp %q : (tensor<2x48xf32>) -> tensor<2x48xf32>
  %t = glow.transpose %p {permutation = array<i64: 1, 0>} : (tensor<2x64xf32>) -> tensor<64x2xf32>
  %m = glow.matmul %t, %q : (tensor<64x2xf32>, tensor<2x48xf32>) -> tensor<64x48xf32>
  %n = glow.matmul %t, %e : (tensor<64x2xf32>, tensor<2x48xf32>) -> tensor<64x48xf32>
  %o = glow.matmul %t, %q : (tensor<64x2xf32>, tensor<2x48xf32>) -> tensor<64x48xf32>
  // CHECK: %[[P:.*]] = glow.concat %p, %p, %p {axis = 0 : i64}
  // CHECK: %[[T:.*]] = glow.transpose %[[P]]
  // CHECK: %[[Q:.*]] = glow.concat %q, %e, %q {axis = 0 : i64}
  // CHECK: glow.matmul %[[T]], %[[Q]]
  // CHECK-NOT: glow.add
  %s = glow.add %m, %n : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  %u = glow.add %s, %o : (tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
  glow.save %u to @z : tensor<64x48xf32>
}
