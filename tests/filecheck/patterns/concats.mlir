// RUN: glow-opt %s -p 'glow-simplify{only=concats}' | filecheck %s

glow.placeholder @x input : tensor<2x5xf32>
glow.placeholder @y output : tensor<2x5xf32>
glow.placeholder @w output : tensor<2x15xf32>

// CHECK-LABEL: glow.func @slices_together
glow.func @slices_together {
  // CHECK-NEXT: %x = glow.get @x
  %x = glow.get @x : tensor<2x5xf32>
  %a = glow.slice %x {starts = array<i64: 0, 0>, ends = array<i64: 2, 2>, steps = array<i64: 1, 1>} : (tensor<2x5xf32>) -> tensor<2x2xf32>
  %b = glow.slice %x {starts = array<i64: 0, 2>, ends = array<i64: 2, 5>, steps = array<i64: 1, 1>} : (tensor<2x5xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: glow.save %x
  %c = glow.concat %a, %b {axis = 1 : i64} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>
  glow.save %c to @y : tensor<2x5xf32>
}

// CHECK-LABEL: glow.func @flattened
glow.func @flattened {
  %x = glow.get @x : tensor<2x5xf32>
  %a = glow.concat %x, %x {axis = 1 : i64} : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x10xf32>
  // CHECK: glow.concat %x, %x, %x
  %b = glow.concat %a, %x {axis = 1 : i64} : (tensor<2x10xf32>, tensor<2x5xf32>) -> tensor<2x15xf32>
  glow.save %b to @w : tensor<2x15xf32>
}

// The parts come in another order.
// CHECK-LABEL: glow.func @keeps_swapped
glow.func @keeps_swapped {
  %x = glow.get @x : tensor<2x5xf32>
  %a = glow.slice %x {starts = array<i64: 0, 0>, ends = array<i64: 2, 2>, steps = array<i64: 1, 1>} : (tensor<2x5xf32>) -> tensor<2x2xf32>
  %b = glow.slice %x {starts = array<i64: 0, 2>, ends = array<i64: 2, 5>, steps = array<i64: 1, 1>} : (tensor<2x5xf32>) -> tensor<2x3xf32>
  // CHECK: glow.concat
  %c = glow.concat %b, %a {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
  glow.save %c to @y : tensor<2x5xf32>
}

// What is read elsewhere too is written once, and copied.
// CHECK-LABEL: glow.func @keeps_shared
glow.func @keeps_shared {
  %x = glow.get @x : tensor<2x5xf32>
  // CHECK: [[a:%.*]] = glow.concat %x, %x
  // CHECK: glow.concat [[a]], %x {axis = 1 : i64}
  %a = glow.concat %x, %x {axis = 1 : i64} : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x10xf32>
  %b = glow.concat %a, %x {axis = 1 : i64} : (tensor<2x10xf32>, tensor<2x5xf32>) -> tensor<2x15xf32>
  glow.save %b to @w : tensor<2x15xf32>
  glow.save %a to @v : tensor<2x10xf32>
}
glow.placeholder @v output : tensor<2x10xf32>
