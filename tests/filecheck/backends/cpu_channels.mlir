// RUN: glow-opt %s -p glow-cpu-channels,glow-dce | filecheck %s

glow.placeholder @x input : tensor<1x2x4x4x16xf32>
glow.placeholder @y output : tensor<1x2x4x4x16xf32>

// A shuffle of 24 channels in 3 groups stays in its blocks.
// CHECK-LABEL: glow.func @shuffle
glow.func @shuffle {
  %x = glow.get @x : tensor<1x2x4x4x16xf32>
  // CHECK-NOT: unblock
  // CHECK: %y = glow_cpu.permute_channels %x {order = array<i64: 0, 8, 16, 1, 9, 17,
  // CHECK-NEXT: glow.save %y
  %u = glow_cpu.unblock %x {channels = 24 : i64} : (tensor<1x2x4x4x16xf32>) -> tensor<1x24x4x4xf32>
  %a = glow.reshape %u : (tensor<1x24x4x4xf32>) -> tensor<1x3x8x4x4xf32>
  %t = glow.transpose %a {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x3x8x4x4xf32>) -> tensor<1x8x3x4x4xf32>
  %b = glow.reshape %t : (tensor<1x8x3x4x4xf32>) -> tensor<1x24x4x4xf32>
  %y = glow_cpu.block %b {lanes = 16 : i64} : (tensor<1x24x4x4xf32>) -> tensor<1x2x4x4x16xf32>
  glow.save %y to @y : tensor<1x2x4x4x16xf32>
}

// Rows and columns change places as well: that is more than an order of channels.
// CHECK-LABEL: glow.func @turned
glow.func @turned {
  %x = glow.get @x : tensor<1x2x4x4x16xf32>
  // CHECK-NOT: permute_channels
  // CHECK: glow_cpu.block
  %u = glow_cpu.unblock %x {channels = 24 : i64} : (tensor<1x2x4x4x16xf32>) -> tensor<1x24x4x4xf32>
  %a = glow.reshape %u : (tensor<1x24x4x4xf32>) -> tensor<1x3x8x4x4xf32>
  %t = glow.transpose %a {permutation = array<i64: 0, 2, 1, 4, 3>} : (tensor<1x3x8x4x4xf32>) -> tensor<1x8x3x4x4xf32>
  %b = glow.reshape %t : (tensor<1x8x3x4x4xf32>) -> tensor<1x24x4x4xf32>
  %y = glow_cpu.block %b {lanes = 16 : i64} : (tensor<1x24x4x4xf32>) -> tensor<1x2x4x4x16xf32>
  glow.save %y to @y : tensor<1x2x4x4x16xf32>
}
