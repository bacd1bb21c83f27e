// RUN: glow-opt %s -p 'glow-simplify{only=reductions}' | filecheck %s

glow.placeholder @x input : tensor<1x2x3x4xf32>
glow.placeholder @y output : tensor<1x2xf32>
glow.placeholder @z output : tensor<1x3xf32>

// CHECK-LABEL: glow.func @image
glow.func @image {
  %x = glow.get @x : tensor<1x2x3x4xf32>
  // CHECK: [[p:%.*]] = glow.avg_pool %x {kernel = array<i64: 3, 4>
  // CHECK-NEXT: glow.reshape [[p]]
  %a = glow.reduce_mean %x {axes = array<i64: 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3xf32>
  %b = glow.reduce_mean %a {axes = array<i64: 2>} : (tensor<1x2x3xf32>) -> tensor<1x2xf32>
  glow.save %b to @y : tensor<1x2xf32>
}

// Channels and one side are no image.
// CHECK-LABEL: glow.func @keeps_other_axes
glow.func @keeps_other_axes {
  %x = glow.get @x : tensor<1x2x3x4xf32>
  // CHECK: glow.reduce_mean %x {axes = array<i64: 1, 3>}
  %a = glow.reduce_mean %x {axes = array<i64: 1, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x3xf32>
  glow.save %a to @z : tensor<1x3xf32>
}

glow.placeholder @whole input : tensor<2x2xi32>
glow.placeholder @mean output : tensor<i32>

// A mean of integers is rounded each time: one over both axes would be another number.
// CHECK-LABEL: glow.func @means_of_integers
glow.func @means_of_integers {
  %x = glow.get @whole : tensor<2x2xi32>
  // CHECK: glow.reduce_mean %x
  // CHECK-NEXT: glow.reduce_mean
  %a = glow.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x2xi32>) -> tensor<2xi32>
  %b = glow.reduce_mean %a {axes = array<i64: 0>} : (tensor<2xi32>) -> tensor<i32>
  glow.save %b to @mean : tensor<i32>
}

// What is read elsewhere too is there to be read.
// CHECK-LABEL: glow.func @keeps_shared
glow.func @keeps_shared {
  %s = glow.get @shared : tensor<2x3xf32>
  // CHECK: [[a:%.*]] = glow.reduce_sum %s
  // CHECK-NEXT: glow.reduce_sum [[a]]
  %a = glow.reduce_sum %s {axes = array<i64: 0>, keepdims = true} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %b = glow.reduce_sum %a {axes = array<i64: 1>, keepdims = true} : (tensor<1x3xf32>) -> tensor<1x1xf32>
  glow.save %a to @row : tensor<1x3xf32>
  glow.save %b to @one : tensor<1x1xf32>
}
glow.placeholder @shared input : tensor<2x3xf32>
glow.placeholder @row output : tensor<1x3xf32>
glow.placeholder @one output : tensor<1x1xf32>
