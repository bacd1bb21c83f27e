// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The result's element type; saturate is printed where it is off.

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @p input : tensor<4xi1>
glow.func @cast {
  %x = glow.get @x : tensor<2x3xf32>
  %p = glow.get @p : tensor<4xi1>
  // CHECK: = glow.cast %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
  %r0 = glow.cast %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
  // CHECK: = glow.cast %x : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  %r1 = glow.cast %x : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  // CHECK: = glow.cast %x {saturate = false} : (tensor<2x3xf32>) -> tensor<2x3xf8E4M3FN>
  %r2 = glow.cast %x {saturate = false} : (tensor<2x3xf32>) -> tensor<2x3xf8E4M3FN>
  // CHECK: = glow.cast %p : (tensor<4xi1>) -> tensor<4xui8>
  %r3 = glow.cast %p : (tensor<4xi1>) -> tensor<4xui8>
}

// -----

// expected-error@unknown {{glow.cast: tensor<2x3xf32> and tensor<3x2xi32> differ in shape}}
// CHECK: glow.cast: tensor<2x3xf32> and tensor<3x2xi32> differ in shape
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.cast %x : (tensor<2x3xf32>) -> tensor<3x2xi32>
}
