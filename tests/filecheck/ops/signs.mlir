// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @signs {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  // CHECK: = glow.copysign %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r0 = glow.copysign %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.fmax %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r1 = glow.fmax %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.fmin %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r2 = glow.fmin %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.heaviside %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r3 = glow.heaviside %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.is_finite %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %r4 = glow.is_finite %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK: = glow.nan_to_num %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r5 = glow.nan_to_num %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.nextafter %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r6 = glow.nextafter %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.round_away %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r7 = glow.round_away %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.signbit %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %r8 = glow.signbit %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
}
