// RUN: glow-opt %s -p 'glow-simplify{only=gathers}' | filecheck %s

glow.constant @two = dense<2> : tensor<i64>
glow.constant @odd = dense<[1, 3]> : tensor<2xi64>
glow.constant @any = dense<[3, 1]> : tensor<2xi64>
glow.placeholder @x input : tensor<4x3xf32>
glow.placeholder @y output : tensor<3xf32>
glow.placeholder @z output : tensor<2x3xf32>

// CHECK-LABEL: glow.func @scalar
glow.func @scalar {
  %x = glow.get @x : tensor<4x3xf32>
  %i = glow.get @two : tensor<i64>
  // CHECK: [[s:%.*]] = glow.slice %x {starts = array<i64: 2, 0>, ends = array<i64: 3, 3>
  // CHECK-NEXT: glow.reshape [[s]] : (tensor<1x3xf32>) -> tensor<3xf32>
  %a = glow.gather %x, %i : (tensor<4x3xf32>, tensor<i64>) -> tensor<3xf32>
  glow.save %a to @y : tensor<3xf32>
}

// CHECK-LABEL: glow.func @spaced
glow.func @spaced {
  %x = glow.get @x : tensor<4x3xf32>
  %i = glow.get @odd : tensor<2xi64>
  // CHECK: glow.slice %x {starts = array<i64: 1, 0>, ends = array<i64: 4, 3>, steps = array<i64: 2, 1>}
  %a = glow.gather %x, %i : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  glow.save %a to @z : tensor<2x3xf32>
}

// CHECK-LABEL: glow.func @keeps_backwards
glow.func @keeps_backwards {
  %x = glow.get @x : tensor<4x3xf32>
  %i = glow.get @any : tensor<2xi64>
  // CHECK: glow.gather
  %a = glow.gather %x, %i : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  glow.save %a to @z : tensor<2x3xf32>
}
