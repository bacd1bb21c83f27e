// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Functions of one operand keep the type.

glow.placeholder @x input : tensor<2x3xf32>
glow.func @unary_math {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.neg %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.neg %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.abs %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.abs %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.floor %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r2 = glow.floor %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.ceil %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r3 = glow.ceil %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.round %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r4 = glow.round %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.sign %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r5 = glow.sign %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.trunc %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r6 = glow.trunc %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.sqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r7 = glow.sqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.rsqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r8 = glow.rsqrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.reciprocal %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r9 = glow.reciprocal %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.sin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r10 = glow.sin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.cos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r11 = glow.cos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.tan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r12 = glow.tan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.asin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r13 = glow.asin %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.acos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r14 = glow.acos %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.atan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r15 = glow.atan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.sinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r16 = glow.sinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.cosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r17 = glow.cosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.asinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r18 = glow.asinh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.acosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r19 = glow.acosh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.atanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r20 = glow.atanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r21 = glow.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.log %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r22 = glow.log %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.log1p %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r23 = glow.log1p %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.expm1 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r24 = glow.expm1 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.erf %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r25 = glow.erf %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.exp: result type is tensor<2x3xf64>, operands give tensor<2x3xf32>}}
// CHECK: glow.exp: result type is tensor<2x3xf64>, operands give tensor<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf64>
}

// -----

// expected-error@unknown {{glow.sqrt: the operand must be of floats, got tensor<2xi32>}}
// CHECK: glow.sqrt: the operand must be of floats, got tensor<2xi32>
glow.placeholder @x input : tensor<2xi32>
glow.func @error1 {
  %x = glow.get @x : tensor<2xi32>
  %r0 = glow.sqrt %x : (tensor<2xi32>) -> tensor<2xi32>
}

// -----

// expected-error@unknown {{glow.neg: the operand must be of numbers, got tensor<2xi1>}}
// CHECK: glow.neg: the operand must be of numbers, got tensor<2xi1>
glow.placeholder @x input : tensor<2xi1>
glow.func @error2 {
  %x = glow.get @x : tensor<2xi1>
  %r0 = glow.neg %x : (tensor<2xi1>) -> tensor<2xi1>
}
