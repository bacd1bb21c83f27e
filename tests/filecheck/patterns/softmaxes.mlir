// RUN: glow-opt %s -p 'glow-simplify{only=softmaxes}' | filecheck %s

glow.placeholder @x input : tensor<2x4xf32>
glow.placeholder @y output : tensor<2x4xf32>
glow.placeholder @h input : tensor<2x4xf16>
glow.placeholder @k output : tensor<2x4xf16>

// CHECK-LABEL: glow.func @softmax
glow.func @softmax {
  %x = glow.get @x : tensor<2x4xf32>
  // CHECK: glow.softmax %x {axis = 1 : i64}
  %e = glow.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = glow.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %a = glow.div %e, %s : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// The sum is over both axes.
// CHECK-LABEL: glow.func @keeps_two_axes
glow.func @keeps_two_axes {
  %x = glow.get @x : tensor<2x4xf32>
  // CHECK: glow.div
  %e = glow.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = glow.reduce_sum %e {axes = array<i64: 0, 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x1xf32>
  %a = glow.div %e, %s : (tensor<2x4xf32>, tensor<1x1xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// Half precision rounds after every step of the formula.
// CHECK-LABEL: glow.func @keeps_half_precision
glow.func @keeps_half_precision {
  %h = glow.get @h : tensor<2x4xf16>
  // CHECK: glow.div
  %e = glow.exp %h : (tensor<2x4xf16>) -> tensor<2x4xf16>
  %s = glow.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf16>) -> tensor<2x1xf16>
  %a = glow.div %e, %s : (tensor<2x4xf16>, tensor<2x1xf16>) -> tensor<2x4xf16>
  glow.save %a to @k : tensor<2x4xf16>
}

// A maximum is subtracted, and both reductions lose their axis, which reshapes bring back.
// CHECK-LABEL: glow.func @reshaped
glow.func @reshaped {
  %x = glow.get @x : tensor<2x4xf32>
  // CHECK: glow.softmax %x {axis = 1 : i64}
  %m = glow.reduce_max %x {axes = array<i64: 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<2xf32>
  %k = glow.reshape %m : (tensor<2xf32>) -> tensor<2x1xf32>
  %d = glow.sub %x, %k : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %e = glow.exp %d : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = glow.reduce_sum %e {axes = array<i64: 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<2xf32>
  %t = glow.reshape %s : (tensor<2xf32>) -> tensor<2x1xf32>
  %a = glow.div %e, %t : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}
