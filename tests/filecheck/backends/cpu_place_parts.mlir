// RUN: glow-opt %s -p glow-irgen,glow-cpu-place-parts | filecheck %s

glow.placeholder @x input : tensor<2x16xf32>
glow.placeholder @y output : tensor<4x16xf32>
glow.placeholder @z output : tensor<2x16xf32>
glow.placeholder @t output : tensor<2x32xf32>

// Both parts are computed in the result.
// CHECK-LABEL: glow_instr.func @concat
glow.func @concat {
  %x = glow.get @x : tensor<2x16xf32>
  // CHECK: %c = glow_instr.alloc : memref<4x16xf32>
  // CHECK-NEXT: %a = glow_instr.tensorview %c : memref<4x16xf32> to memref<2x16xf32>
  // CHECK-NEXT: glow_instr.relu @out %a
  // CHECK-NEXT: %b = glow_instr.tensorview %c offset 32 : memref<4x16xf32> to memref<2x16xf32>
  // CHECK-NEXT: glow_instr.neg @out %b, @in %a
  // CHECK-NEXT: glow_instr.copy
  %a = glow.relu %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %b = glow.neg %a : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %c = glow.concat %a, %b {axis = 0 : i64} : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<4x16xf32>
  glow.save %c to @y : tensor<4x16xf32>
}

// A part that has a place of its own is copied; the other one is computed in the result.
// CHECK-LABEL: glow_instr.func @input_part
glow.func @input_part {
  %x = glow.get @x : tensor<2x16xf32>
  // CHECK: glow_instr.relu @out %a
  // CHECK-NEXT: [[V:%.*]] = glow_instr.tensorview %c offset 32
  // CHECK-NEXT: glow_instr.copy @out [[V]], @in %0
  %a = glow.relu %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %c = glow.concat %a, %x {axis = 0 : i64} : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<4x16xf32>
  glow.save %c to @y : tensor<4x16xf32>
}

// Rows of two tensors alternate: that is a copy.
// CHECK-LABEL: glow_instr.func @inner_axis
glow.func @inner_axis {
  %x = glow.get @x : tensor<2x16xf32>
  // CHECK: glow_instr.concat
  %a = glow.relu %x : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %c = glow.concat %a, %x {axis = 1 : i64} : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x32xf32>
  glow.save %c to @t : tensor<2x32xf32>
}

// A row that starts on an aligned address is read where it is; one that does not is copied.
// CHECK-LABEL: glow_instr.func @slices
glow.func @slices {
  %x = glow.get @x : tensor<2x16xf32>
  // CHECK: %a = glow_instr.tensorview %{{.*}} offset 16 : memref<2x16xf32> to memref<1x16xf32>
  // CHECK: glow_instr.slice
  %a = glow.slice %x {starts = array<i64: 1, 0>, ends = array<i64: 2, 16>, steps = array<i64: 1, 1>} : (tensor<2x16xf32>) -> tensor<1x16xf32>
  %b = glow.slice %x {starts = array<i64: 1, 4>, ends = array<i64: 2, 8>, steps = array<i64: 1, 1>} : (tensor<2x16xf32>) -> tensor<1x4xf32>
  %c = glow.reduce_sum %b {axes = array<i64: 1>, keepdims = true} : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %d = glow.mul %a, %c : (tensor<1x16xf32>, tensor<1x1xf32>) -> tensor<1x16xf32>
  %e = glow.add %d, %x : (tensor<1x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  glow.save %e to @z : tensor<2x16xf32>
}
