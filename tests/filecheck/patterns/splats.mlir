// RUN: glow-opt %s -p 'glow-simplify{only=splats}' | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y output : tensor<2x3xf32>
glow.placeholder @w output : tensor<4x2x3xf32>

// CHECK-LABEL: glow.func @moved_and_computed
glow.func @moved_and_computed {
  %a = glow.splat {value = 2.0 : f64} : () -> tensor<3x2xf32>
  %b = glow.reshape %a : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %c = glow.mul %b, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: [[s:%.*]] = glow.splat {value = 4.000000e+00 : f64} : () -> tensor<2x3xf32>
  // CHECK-NEXT: glow.save [[s]]
  glow.save %c to @y : tensor<2x3xf32>
}

// CHECK-LABEL: glow.func @shrunk
glow.func @shrunk {
  %x = glow.get @x : tensor<2x3xf32>
  %a = glow.splat {value = 2.0 : f64} : () -> tensor<2x3xf32>
  // CHECK: [[s:%.*]] = glow.splat {value = 2.000000e+00 : f64} : () -> tensor<f32>
  // CHECK-NEXT: glow.add %x, [[s]]
  %b = glow.add %x, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  glow.save %b to @y : tensor<2x3xf32>
}

// The splat gives the result its shape.
// CHECK-LABEL: glow.func @keeps_shape
glow.func @keeps_shape {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: glow.splat {{.*}} tensor<4x2x3xf32>
  %a = glow.splat {value = 2.0 : f64} : () -> tensor<4x2x3xf32>
  %b = glow.add %x, %a : (tensor<2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  glow.save %b to @w : tensor<4x2x3xf32>
}

// Integers that stand for real numbers are no number: what moves them stays.
// CHECK-LABEL: glow.func @keeps_quantized
glow.func @keeps_quantized {
  %q = glow.get @q : tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
  // CHECK: glow.reshape %q
  %r = glow.reshape %q : (tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  glow.save %r to @stored : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}
glow.constant @q = #glow.bits<"0x02020202", tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>>
glow.placeholder @stored output : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
