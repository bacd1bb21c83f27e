// RUN: glow-opt %s -p 'glow-cpu-layout{cpu=haswell}' | filecheck %s
// RUN: glow-opt %s -p 'glow-cpu-layout{cpu=haswell},glow-cpu-choose{cpu=haswell}' | filecheck %s --check-prefix PACKED

// A layer of training: filters that change, statistics of the batch and all gradients stay on blocks.
// CHECK:       %[[X:.*]] = glow_cpu.block %x {lanes = 8 : i64}
// CHECK-NEXT:  %[[Y:.*]] = glow_cpu.conv %[[X]], %w {lanes = 8 : i64
// CHECK-NEXT:  %[[N:.*]], %[[MEAN:.*]], %[[VARIANCE:.*]] = glow_cpu.batch_norm_train %[[Y]], %s, %b
// CHECK-NEXT:  %[[DY:.*]] = glow_cpu.block %dy
// CHECK-NEXT:  %[[DN:.*]], %{{.*}}, %[[BIAS:.*]] = glow_cpu.batch_norm_backward %[[Y]], %s, %[[MEAN]], %[[VARIANCE]], %[[DY]]
// CHECK-NEXT:  %[[SUM:.*]] = glow.reduce_sum %[[DN]]
// CHECK-NEXT:  glow.reshape %[[SUM]]
// CHECK:       glow_cpu.conv %[[DN]], %w {form = "IOHW", lanes = 8 : i64, pads = array<i64: 1, 1, 1, 1>
// CHECK:       glow_cpu.conv_weights %[[X]], %[[DN]]

// The adjoint of a stride: a convolution for each place of it, by every second tap.
// CHECK:       %[[EVEN:.*]] = glow.slice %v {starts = array<i64: 0, 0, 1, 1>
// CHECK-NEXT:  glow_cpu.conv %{{.*}}, %[[EVEN]] {form = "IOHW"
// CHECK:       glow.concat %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {axis = 0 : i64}
// CHECK:       glow.transpose

// PACKED:      %[[W:.*]] = glow_cpu.pack_filter %w {tile = 4 : i64, lanes = 8 : i64
// PACKED-NEXT: glow_cpu.conv %{{.*}}, %w, %[[W]] {algorithm = "winograd4"
// PACKED:      glow_cpu.pack_filter %w {{{.*}}form = "IOHW"
glow.placeholder @x : tensor<4x64x32x32xf32>
glow.placeholder @w : tensor<64x64x3x3xf32>
glow.placeholder @v : tensor<64x64x3x3xf32>
glow.placeholder @s : tensor<64xf32>
glow.placeholder @b : tensor<64xf32>
glow.placeholder @dy : tensor<4x64x32x32xf32>
glow.placeholder @db output : tensor<64xf32>
glow.placeholder @dx output : tensor<4x64x32x32xf32>
glow.placeholder @dw output : tensor<64x64x3x3xf32>
glow.placeholder @dz output : tensor<4x64x64x64xf32>
glow.func @main training {
  %x = glow.get @x : tensor<4x64x32x32xf32>
  %w = glow.get @w : tensor<64x64x3x3xf32>
  %v = glow.get @v : tensor<64x64x3x3xf32>
  %s = glow.get @s : tensor<64xf32>
  %b = glow.get @b : tensor<64xf32>
  %dy = glow.get @dy : tensor<4x64x32x32xf32>
  %y = glow.conv %x, %w {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x64x32x32xf32>, tensor<64x64x3x3xf32>) -> tensor<4x64x32x32xf32>
  %n, %mean, %variance = glow.batch_norm_train %y, %s, %b : (tensor<4x64x32x32xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<4x64x32x32xf32>, tensor<64xf32>, tensor<64xf32>)
  %dn, %ds, %dbias = glow.batch_norm_backward %y, %s, %mean, %variance, %dy : (tensor<4x64x32x32xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<4x64x32x32xf32>) -> (tensor<4x64x32x32xf32>, tensor<64xf32>, tensor<64xf32>)
  %db = glow.reduce_sum %dn {axes = array<i64: 0, 2, 3>, keepdims = false} : (tensor<4x64x32x32xf32>) -> tensor<64xf32>
  glow.save %db to @db : tensor<64xf32>
  %dx = glow.conv_transpose %dn, %w {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, output_pads = array<i64: 0, 0>} : (tensor<4x64x32x32xf32>, tensor<64x64x3x3xf32>) -> tensor<4x64x32x32xf32>
  glow.save %dx to @dx : tensor<4x64x32x32xf32>
  %dw = glow.conv_backward_weights %x, %dn {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<4x64x32x32xf32>, tensor<4x64x32x32xf32>) -> tensor<64x64x3x3xf32>
  glow.save %dw to @dw : tensor<64x64x3x3xf32>
  %dz = glow.conv_transpose %dx, %v {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, output_pads = array<i64: 1, 1>} : (tensor<4x64x32x32xf32>, tensor<64x64x3x3xf32>) -> tensor<4x64x64x64xf32>
  glow.save %dz to @dz : tensor<4x64x64x64xf32>
}
