// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Booleans, bits, and tests of floats.

glow.placeholder @p input : tensor<4xi1>
glow.placeholder @q input : tensor<1xi1>
glow.placeholder @i input : tensor<4xi32>
glow.placeholder @j input : tensor<i32>
glow.placeholder @f input : tensor<4xf32>
glow.func @logic {
  %p = glow.get @p : tensor<4xi1>
  %q = glow.get @q : tensor<1xi1>
  %i = glow.get @i : tensor<4xi32>
  %j = glow.get @j : tensor<i32>
  %f = glow.get @f : tensor<4xf32>
  // CHECK: = glow.not %p : (tensor<4xi1>) -> tensor<4xi1>
  %r0 = glow.not %p : (tensor<4xi1>) -> tensor<4xi1>
  // CHECK: = glow.and %p, %q : (tensor<4xi1>, tensor<1xi1>) -> tensor<4xi1>
  %r1 = glow.and %p, %q : (tensor<4xi1>, tensor<1xi1>) -> tensor<4xi1>
  // CHECK: = glow.or %p, %q : (tensor<4xi1>, tensor<1xi1>) -> tensor<4xi1>
  %r2 = glow.or %p, %q : (tensor<4xi1>, tensor<1xi1>) -> tensor<4xi1>
  // CHECK: = glow.xor %p, %q : (tensor<4xi1>, tensor<1xi1>) -> tensor<4xi1>
  %r3 = glow.xor %p, %q : (tensor<4xi1>, tensor<1xi1>) -> tensor<4xi1>
  // CHECK: = glow.bitwise_not %i : (tensor<4xi32>) -> tensor<4xi32>
  %r4 = glow.bitwise_not %i : (tensor<4xi32>) -> tensor<4xi32>
  // CHECK: = glow.bitwise_and %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %r5 = glow.bitwise_and %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  // CHECK: = glow.bitwise_or %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %r6 = glow.bitwise_or %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  // CHECK: = glow.bitwise_xor %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %r7 = glow.bitwise_xor %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  // CHECK: = glow.shift_left %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %r8 = glow.shift_left %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  // CHECK: = glow.shift_right %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %r9 = glow.shift_right %i, %j : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  // CHECK: = glow.is_nan %f : (tensor<4xf32>) -> tensor<4xi1>
  %r10 = glow.is_nan %f : (tensor<4xf32>) -> tensor<4xi1>
  // CHECK: = glow.is_inf %f {detect_negative = false} : (tensor<4xf32>) -> tensor<4xi1>
  %r11 = glow.is_inf %f {detect_negative = false} : (tensor<4xf32>) -> tensor<4xi1>
  // CHECK: = glow.replace_nan %f {value = 1.000000e+00 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %r12 = glow.replace_nan %f {value = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.and: operands must be i1, got tensor<4xi32>}}
// CHECK: glow.and: operands must be i1, got tensor<4xi32>
glow.placeholder @i input : tensor<4xi32>
glow.func @error0 {
  %i = glow.get @i : tensor<4xi32>
  %r0 = glow.and %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
}

// -----

// expected-error@unknown {{glow.bitwise_or: operands must be integers, got tensor<4xf32>}}
// CHECK: glow.bitwise_or: operands must be integers, got tensor<4xf32>
glow.placeholder @f input : tensor<4xf32>
glow.func @error1 {
  %f = glow.get @f : tensor<4xf32>
  %r0 = glow.bitwise_or %f, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
}
