// RUN: glow-opt %s -p 'glow-simplify{only=transposes}' | filecheck %s

glow.placeholder @x input : tensor<1x4x5x3xf32>
glow.placeholder @y output : tensor<1x4x5x3xf32>
glow.placeholder @z output : tensor<1x3x4x5xf32>
glow.placeholder @r output : tensor<3x1xf32>

// A transpose sinks below the addition and meets its inverse.
// CHECK-LABEL: glow.func @sunk_and_cancelled
glow.func @sunk_and_cancelled {
  %x = glow.get @x : tensor<1x4x5x3xf32>
  %t = glow.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK-NOT: glow.transpose
  // CHECK: [[sum:%.*]] = glow.add %x
  // CHECK-NEXT: [[relu:%.*]] = glow.relu [[sum]]
  // CHECK-NEXT: glow.save [[relu]] to @y
  %a = glow.add %t, %one : (tensor<1x3x4x5xf32>, tensor<f32>) -> tensor<1x3x4x5xf32>
  %b = glow.relu %a : (tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  %u = glow.transpose %b {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  glow.save %u to @y : tensor<1x4x5x3xf32>
}

// A reduction takes over the axes.
// CHECK-LABEL: glow.func @reduced
glow.func @reduced {
  %x = glow.get @x : tensor<1x4x5x3xf32>
  %t = glow.transpose %x {permutation = array<i64: 3, 0, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<3x1x4x5xf32>
  // CHECK: [[sum:%.*]] = glow.reduce_sum %x {axes = array<i64: 1, 2>
  // CHECK-NEXT: [[r:%.*]] = glow.reshape [[sum]]
  // CHECK-NEXT: glow.save [[r]]
  %s = glow.reduce_sum %t {axes = array<i64: 2, 3>} : (tensor<3x1x4x5xf32>) -> tensor<3x1xf32>
  glow.save %s to @r : tensor<3x1xf32>
}

// Only one operand is transposed: moving the transpose would need another one.
// CHECK-LABEL: glow.func @keeps_one_sided
glow.func @keeps_one_sided {
  %x = glow.get @x : tensor<1x4x5x3xf32>
  %w = glow.get @w : tensor<1x3x4x5xf32>
  // CHECK: [[t:%.*]] = glow.transpose
  // CHECK: glow.add [[t]], %w
  %t = glow.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %a = glow.add %t, %w : (tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  glow.save %a to @z : tensor<1x3x4x5xf32>
}
glow.placeholder @w input : tensor<1x3x4x5xf32>

// What is saved as it is has to be transposed in any case.
// CHECK-LABEL: glow.func @keeps_saved
glow.func @keeps_saved {
  %x = glow.get @saved : tensor<2x3xf32>
  // CHECK: [[t:%.*]] = glow.transpose %x
  // CHECK-NEXT: glow.exp [[t]]
  %t = glow.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %e = glow.exp %t : (tensor<3x2xf32>) -> tensor<3x2xf32>
  glow.save %t to @turned : tensor<3x2xf32>
  glow.save %e to @raised : tensor<3x2xf32>
}
glow.placeholder @saved input : tensor<2x3xf32>
glow.placeholder @turned output : tensor<3x2xf32>
glow.placeholder @raised output : tensor<3x2xf32>
