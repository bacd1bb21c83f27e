// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @angles {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  // CHECK: = glow.atan2 %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r0 = glow.atan2 %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.deg2rad %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.deg2rad %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.hypot %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r2 = glow.hypot %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.rad2deg %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r3 = glow.rad2deg %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.sinc %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r4 = glow.sinc %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
