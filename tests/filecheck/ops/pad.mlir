// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Begins, then ends; the mode prints where it is not constant.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @pad {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.pad %x {value = 1.000000e+00 : f64, pads = array<i64: 0, 1, 0, 2>} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  %r0 = glow.pad %x {pads = array<i64: 0, 1, 0, 2>, value = 1.0 : f64} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK: = glow.pad %x {mode = "edge", pads = array<i64: 1, 0, 1, 0>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %r1 = glow.pad %x {pads = array<i64: 1, 0, 1, 0>, mode = "edge"} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  // CHECK: = glow.pad %x {mode = "reflect", pads = array<i64: 1, 0, 1, 0>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %r2 = glow.pad %x {pads = array<i64: 1, 0, 1, 0>, mode = "reflect"} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  // CHECK: = glow.pad %x {mode = "wrap", pads = array<i64: 1, 0, 1, 0>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %r3 = glow.pad %x {pads = array<i64: 1, 0, 1, 0>, mode = "wrap"} : (tensor<2x3xf32>) -> tensor<4x3xf32>
}

// -----

// expected-error@unknown {{glow.pad: half of pads has 1 entries for a tensor of rank 2}}
// CHECK: glow.pad: half of pads has 1 entries for a tensor of rank 2
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.pad %x {pads = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x4xf32>
}

// -----

// expected-error@unknown {{glow.pad: pads are [0, -1, 0, 0], expected two sizes per axis}}
// CHECK: glow.pad: pads are [0, -1, 0, 0], expected two sizes per axis
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.pad %x {pads = array<i64: 0, -1, 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
}

// -----

// expected-error@unknown {{glow.pad: mode is 'mirror', not one of constant, edge, reflect, wrap}}
// CHECK: glow.pad: mode is 'mirror', not one of constant, edge, reflect, wrap
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.pad %x {pads = array<i64: 0, 1, 0, 0>, mode = "mirror"} : (tensor<2x3xf32>) -> tensor<2x4xf32>
}

// -----

// expected-error@unknown {{glow.pad: nothing to edge in tensor<0xf32>}}
// CHECK: glow.pad: nothing to edge in tensor<0xf32>
glow.placeholder @e input : tensor<0xf32>
glow.func @error3 {
  %e = glow.get @e : tensor<0xf32>
  %r0 = glow.pad %e {pads = array<i64: 1, 1>, mode = "edge"} : (tensor<0xf32>) -> tensor<2xf32>
}
