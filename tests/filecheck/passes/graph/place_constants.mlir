// RUN: glow-opt %s -p glow-place-constants | filecheck %s

glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>
glow.placeholder @z output : tensor<2x2xf32>

// CHECK: glow.constant @row = dense<[1.000000e+00, 2.000000e+00]>
// CHECK-LABEL: glow.func @literal
glow.func @literal {
  %x = glow.get @x : tensor<2xf32>
  // CHECK: %row = glow.get @row
  // CHECK-NEXT: glow.add %x, %row
  %row = glow.literal {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %a = glow.add %x, %row : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %a to @y : tensor<2xf32>
}

// An element-wise kernel has the number in its code; a matrix product reads memory.
// CHECK-LABEL: glow.func @splats
glow.func @splats {
  %x = glow.get @x : tensor<2xf32>
  // CHECK: [[one:%.*]] = glow.splat
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK-NEXT: glow.add %x, [[one]]
  %a = glow.add %x, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %r = glow.reshape %a : (tensor<2xf32>) -> tensor<2x1xf32>
  // CHECK: %ones = glow.get @ones
  %ones = glow.splat {value = 1.0 : f64} : () -> tensor<1x2xf32>
  %p = glow.matmul %r, %ones : (tensor<2x1xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  glow.save %p to @z : tensor<2x2xf32>
}

// A matrix product reads memory, whoever else reads the number.
// CHECK-LABEL: glow.func @shared
glow.func @shared {
  %x = glow.get @x : tensor<2xf32>
  %m = glow.reshape %x : (tensor<2xf32>) -> tensor<1x2xf32>
  // CHECK: %twos = glow.get @twos
  // CHECK-NEXT: glow.add %m, %twos
  %twos = glow.splat {value = 2.0 : f64} : () -> tensor<2x2xf32>
  %a = glow.add %m, %twos : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p = glow.matmul %a, %twos : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  glow.save %p to @z : tensor<2x2xf32>
}

// What is saved as it is, is in memory.
// CHECK-LABEL: glow.func @saved
glow.func @saved {
  // CHECK: %threes = glow.get @threes
  // CHECK-NEXT: glow.save %threes
  %threes = glow.splat {value = 3.0 : f64} : () -> tensor<2x2xf32>
  glow.save %threes to @z : tensor<2x2xf32>
}

// A size that only the run knows is filled by the run.
// CHECK-LABEL: glow.func @keeps_open
glow.func @keeps_open {
  // CHECK: glow.splat
  %v = glow.splat {value = 3.0 : f64} : () -> tensor<[n]x2xf32>
  glow.save %v to @open : tensor<[n]x2xf32>
}
glow.placeholder @open output : tensor<[n]x2xf32>
