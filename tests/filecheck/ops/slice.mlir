// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Explicit bounds of every axis; backwards down to -1.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @slice {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.slice %x {starts = array<i64: 0, 1>, ends = array<i64: 2, 3>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %r0 = glow.slice %x {starts = array<i64: 0, 1>, ends = array<i64: 2, 3>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  // CHECK: = glow.slice %x {starts = array<i64: 1, 2>, ends = array<i64: -1, -1>, steps = array<i64: -1, -2>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %r1 = glow.slice %x {starts = array<i64: 1, 2>, ends = array<i64: -1, -1>, steps = array<i64: -1, -2>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
}

// -----

// expected-error@unknown {{glow.slice: starts has 1 entries for a tensor of rank 2}}
// CHECK: glow.slice: starts has 1 entries for a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.slice %x {starts = array<i64: 0>, ends = array<i64: 2>, steps = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.slice: the step of axis 1 is 0}}
// CHECK: glow.slice: the step of axis 1 is 0
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.slice %x {starts = array<i64: 0, 0>, ends = array<i64: 2, 3>, steps = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.slice: 0 .. 4 by 1 leaves axis 1 of 3 elements}}
// CHECK: glow.slice: 0 .. 4 by 1 leaves axis 1 of 3 elements
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.slice %x {starts = array<i64: 0, 0>, ends = array<i64: 2, 4>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x4xf32>
}

// -----

// expected-error@unknown {{glow.slice: 0 .. -1 by 1 leaves axis 1 of 3 elements}}
// CHECK: glow.slice: 0 .. -1 by 1 leaves axis 1 of 3 elements
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error3 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.slice %x {starts = array<i64: 0, 0>, ends = array<i64: 2, -1>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x0xf32>
}
