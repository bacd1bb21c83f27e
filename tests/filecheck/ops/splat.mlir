// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The value is converted to the element type.

glow.func @splat {
  // CHECK: = glow.splat {value = 1.500000e+00 : f64} : () -> tensor<2x3xf32>
  %r0 = glow.splat {value = 1.5 : f64} : () -> tensor<2x3xf32>
  // CHECK: = glow.splat {value = 3.000000e+00 : f64} : () -> tensor<i64>
  %r1 = glow.splat {value = 3.0 : f64} : () -> tensor<i64>
  // CHECK: = glow.splat {value = 0x7ff0000000000000 : f64} : () -> tensor<2xf32>
  %r2 = glow.splat {value = 0x7FF0000000000000 : f64} : () -> tensor<2xf32>
}
