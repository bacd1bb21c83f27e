// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Counting up, and whole numbers of a list.

glow.func @numbers {
  // CHECK: = glow.iota : () -> tensor<5xi64>
  %r0 = glow.iota : () -> tensor<5xi64>
  // CHECK: = glow.sizes {values = array<i64: 3, 1>} : () -> tensor<2xi64>
  %r1 = glow.sizes {values = array<i64: 3, 1>} : () -> tensor<2xi64>
  // CHECK: = glow.sizes {values = array<i64: 7>} : () -> tensor<f32>
  %r2 = glow.sizes {values = array<i64: 7>} : () -> tensor<f32>
}

// -----

glow.func @square {
  // expected-error@unknown {{glow.iota: the result is tensor<2x2xi64>, expected a vector}}
  %r0 = glow.iota : () -> tensor<2x2xi64>
}

// -----

glow.func @count {
  // expected-error@unknown {{glow.sizes: 2 numbers for tensor<3xi64>}}
  %r0 = glow.sizes {values = array<i64: 3, 1>} : () -> tensor<3xi64>
}
