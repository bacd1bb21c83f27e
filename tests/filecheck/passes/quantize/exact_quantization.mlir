// RUN: glow-opt %s -p glow-exact-quantization | filecheck %s

glow.placeholder @x input : tensor<2x64xf32>
glow.placeholder @rounded output : tensor<2x64xf32>
glow.placeholder @steps input : tensor<3x2x5xf32>
glow.placeholder @w input : tensor<1x8x5xf32>
glow.placeholder @r input : tensor<1x8x2xf32>
glow.placeholder @b input : tensor<1x16xf32>
glow.placeholder @s input : tensor<1x8xf32>
glow.placeholder @u input : tensor<1x8xf32>
glow.placeholder @y output : tensor<3x1x2x2xf32>

// Activations are not rounded.
// CHECK-LABEL: glow.func @main
glow.func @main {
  // CHECK-NEXT: [[x:%.*]] = glow.get @x
  // CHECK-NEXT: glow.save [[x]] to @rounded
  %x = glow.get @x : tensor<2x64xf32>
  %p = glow.round_blocks %x {block = 32 : i64} : (tensor<2x64xf32>) -> tensor<2x64xf32>
  glow.save %p to @rounded : tensor<2x64xf32>
}

// Weights are the real numbers that integers and their scales mean: W by the last operand, R by the one before.
// CHECK-LABEL: glow.func @recurrent
glow.func @recurrent {
  %x = glow.get @steps : tensor<3x2x5xf32>
  %w = glow.get @w : tensor<1x8x5xf32>
  %r = glow.get @r : tensor<1x8x2xf32>
  %b = glow.get @b : tensor<1x16xf32>
  %s = glow.get @s : tensor<1x8xf32>
  %u = glow.get @u : tensor<1x8xf32>
  // CHECK: [[units:%.*]] = glow.reshape %u {{.*}} -> tensor<1x8x1xf32>
  // CHECK: [[w:%.*]] = glow.mul %w, [[units]]
  // CHECK: [[scales:%.*]] = glow.reshape %s {{.*}} -> tensor<1x8x1xf32>
  // CHECK: [[r:%.*]] = glow.mul %r, [[scales]]
  // CHECK: glow.lstm %x, [[w]], [[r]], %b {
  %y, %h, %c = glow.lstm %x, %w, %r, %b, %s, %u {activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0>} : (tensor<3x2x5xf32>, tensor<1x8x5xf32>, tensor<1x8x2xf32>, tensor<1x16xf32>, tensor<1x8xf32>, tensor<1x8xf32>) -> (tensor<3x1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
  glow.save %y to @y : tensor<3x1x2x2xf32>
}
