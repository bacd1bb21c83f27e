// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The same shape and width.

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @b input : tensor<4xi8>
glow.func @bit_cast {
  %x = glow.get @x : tensor<2x3xf32>
  %b = glow.get @b : tensor<4xi8>
  // CHECK: = glow.bit_cast %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
  %r0 = glow.bit_cast %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
  // CHECK: = glow.bit_cast %b : (tensor<4xi8>) -> tensor<4xui8>
  %r1 = glow.bit_cast %b : (tensor<4xi8>) -> tensor<4xui8>
}

// -----

// expected-error@unknown {{glow.bit_cast: tensor<2x3xf32> and tensor<2x3xi64> differ in shape or width}}
// CHECK: glow.bit_cast: tensor<2x3xf32> and tensor<2x3xi64> differ in shape or width
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.bit_cast %x : (tensor<2x3xf32>) -> tensor<2x3xi64>
}

// -----

// expected-error@unknown {{glow.bit_cast: tensor<2x3xf32> and tensor<6xi32> differ in shape or width}}
// CHECK: glow.bit_cast: tensor<2x3xf32> and tensor<6xi32> differ in shape or width
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.bit_cast %x : (tensor<2x3xf32>) -> tensor<6xi32>
}
