// RUN: glow-opt %s -p 'glow-cpu-fuse,glow-cpu-fuse-norms,glow-dce' | filecheck %s

// Residual and relu happen where the normalisation writes; the relu's gradient where the convolution
// does that makes it, or where the normalisation's gradient reads.
// CHECK:      %[[Y:.*]], %[[MEAN:.*]], %[[VARIANCE:.*]] = glow_cpu.batch_norm_train %x, %s, %b, %e :
// CHECK-NEXT: ^bb0(%[[UNIT:.*]]: tensor<f32>, %[[E:.*]]: tensor<f32>):
// CHECK-NEXT:   %[[A:.*]] = glow.add %[[UNIT]], %[[E]]
// CHECK-NEXT:   %[[R:.*]] = glow.relu %[[A]]
// CHECK-NEXT:   glow_cpu.yield %[[R]]
// CHECK-NOT:  glow.relu
// CHECK:      %[[DC:.*]] = glow_cpu.conv %e, %w, %[[Y]] {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: tensor<f32>, %[[OUT:.*]]: tensor<f32>):
// CHECK-NEXT:   %[[ZERO:.*]] = glow.splat {value = 0.000000e+00 : f64}
// CHECK-NEXT:   %[[POSITIVE:.*]] = glow.cmp_gt %[[OUT]], %[[ZERO]]
// CHECK-NEXT:   %[[G:.*]] = glow.select %[[POSITIVE]], %[[SUM]], %[[ZERO]]
// CHECK-NEXT:   glow_cpu.yield %[[G]]
// CHECK-NOT:  glow.select
// CHECK:      glow_cpu.batch_norm_backward %x, %s, %[[MEAN]], %[[VARIANCE]], %e, %[[Y]]
// CHECK-NOT:  glow.select
glow.placeholder @x : tensor<2x1x4x4x8xf32>
glow.placeholder @e : tensor<2x1x4x4x8xf32>
glow.placeholder @s : tensor<8xf32>
glow.placeholder @b : tensor<8xf32>
glow.placeholder @w : tensor<8x8x1x1xf32>
glow.placeholder @y output : tensor<2x1x4x4x8xf32>
glow.placeholder @dc output : tensor<2x1x4x4x8xf32>
glow.placeholder @dx output : tensor<2x1x4x4x8xf32>
glow.func @main training {
  %x = glow.get @x : tensor<2x1x4x4x8xf32>
  %e = glow.get @e : tensor<2x1x4x4x8xf32>
  %s = glow.get @s : tensor<8xf32>
  %b = glow.get @b : tensor<8xf32>
  %w = glow.get @w : tensor<8x8x1x1xf32>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<1x1x1x1x1xf32>
  %n, %mean, %variance = glow_cpu.batch_norm_train %x, %s, %b : (tensor<2x1x4x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x1x4x4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %a = glow.add %e, %n : (tensor<2x1x4x4x8xf32>, tensor<2x1x4x4x8xf32>) -> tensor<2x1x4x4x8xf32>
  %y = glow.relu %a : (tensor<2x1x4x4x8xf32>) -> tensor<2x1x4x4x8xf32>
  glow.save %y to @y : tensor<2x1x4x4x8xf32>
  %c = glow_cpu.conv %e, %w {lanes = 8 : i64, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (tensor<2x1x4x4x8xf32>, tensor<8x8x1x1xf32>) -> tensor<2x1x4x4x8xf32>
  %positive = glow.cmp_gt %y, %zero : (tensor<2x1x4x4x8xf32>, tensor<1x1x1x1x1xf32>) -> tensor<2x1x4x4x8xi1>
  %dc = glow.select %positive, %c, %zero : (tensor<2x1x4x4x8xi1>, tensor<2x1x4x4x8xf32>, tensor<1x1x1x1x1xf32>) -> tensor<2x1x4x4x8xf32>
  glow.save %dc to @dc : tensor<2x1x4x4x8xf32>
  %g = glow.select %positive, %e, %zero : (tensor<2x1x4x4x8xi1>, tensor<2x1x4x4x8xf32>, tensor<1x1x1x1x1xf32>) -> tensor<2x1x4x4x8xf32>
  %dx, %ds, %db = glow_cpu.batch_norm_backward %x, %s, %mean, %variance, %g : (tensor<2x1x4x4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x1x4x4x8xf32>) -> (tensor<2x1x4x4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  glow.save %dx to @dx : tensor<2x1x4x4x8xf32>
}
