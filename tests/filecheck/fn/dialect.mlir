// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics --print-op-generic | filecheck %s --check-prefix GENERIC

// The seed's closure: values of the enclosing function are captured.

// CHECK-LABEL: glow_fn.func @func_outer(%a : f64, %b : f64) {
// CHECK-NEXT:    %inner = glow_fn.lambda @func_inner(%c : f64) {
// CHECK-NEXT:      %0 = glow_fn.prim add(%a, %b) : f64
// CHECK-NEXT:      %1 = glow_fn.prim add(%0, %c) : f64
// CHECK-NEXT:      glow_fn.return %1
// CHECK-NEXT:    } : (f64) -> f64
// CHECK-NEXT:    glow_fn.return %inner
// CHECK-NEXT:  }
// GENERIC: "glow_fn.lambda"() <{sym_hint = "func_inner"}> ({
glow_fn.func @func_outer(%a : f64, %b : f64) {
  %inner = glow_fn.lambda @func_inner(%c : f64) {
    %0 = glow_fn.prim add(%a, %b) : f64
    %1 = glow_fn.prim add(%0, %c) : f64
    glow_fn.return %1
  } : (f64) -> f64
  glow_fn.return %inner
}

// CHECK-LABEL: @closure(
// CHECK: %one = glow_fn.constant 1.000000e+00 : f64 : f64
// CHECK: %f = glow_fn.ref @func_outer : (f64, f64) -> ((f64) -> f64)
// CHECK: %p = glow_fn.partial %f(%one) : (f64) -> ((f64) -> f64)
// CHECK: %g = glow_fn.call %p(%x) : (f64) -> f64
// CHECK: %r = glow_fn.call %g(%one) : f64
// CHECK: %t = glow_fn.tuple %r, %x
// CHECK: %i = glow_fn.get %t[0]
// CHECK: %s = glow_fn.switch %c, %i, %x
// CHECK: %l = glow_fn.switch_layer %n, %i, %x, %s
// CHECK: %d = glow_fn.grad %g by 0
// CHECK: %v = glow_fn.value_and_grad %g by [0]
// CHECK: %o = glow_fn.over map %t
glow_fn.func @closure(%x : f64, %c : i1, %n : i64) {
  %one = glow_fn.constant 1.0 : f64 : f64
  %f = glow_fn.ref @func_outer : (f64, f64) -> ((f64) -> f64)
  %p = glow_fn.partial %f(%one) : (f64) -> ((f64) -> f64)
  %g = glow_fn.call %p(%x) : (f64) -> f64
  %r = glow_fn.call %g(%one) : f64
  %t = glow_fn.tuple %r, %x
  %i = glow_fn.get %t[0]
  %s = glow_fn.switch %c, %i, %x
  %l = glow_fn.switch_layer %n, %i, %x, %s
  %d = glow_fn.grad %g by 0
  %v = glow_fn.value_and_grad %g by [0]
  %o = glow_fn.over map %t
  glow_fn.return %l
}

// -----

// expected-error@unknown {{glow_fn.ref: there is no function @missing}}
// CHECK: glow_fn.ref: there is no function @missing
glow_fn.func @f(%x) {
  %g = glow_fn.ref @missing
  glow_fn.return %x
}

// -----

// expected-error@unknown {{glow_fn.switch: the branches are f64 and i64}}
// CHECK: glow_fn.switch: the branches are f64 and i64
glow_fn.func @f(%c : i1, %a : f64, %b : i64) {
  %g = glow_fn.switch %c, %a, %b
  glow_fn.return %g
}

// -----

// expected-error@unknown {{glow_fn.call: argument 0 is i64, not f64}}
// CHECK: glow_fn.call: argument 0 is i64, not f64
glow_fn.func @f(%g : (f64) -> f64, %a : i64) {
  %r = glow_fn.call %g(%a)
  glow_fn.return %r
}

// -----

// expected-error@unknown {{glow_fn.prim: mul takes 2 arguments, got 1}}
// CHECK: glow_fn.prim: mul takes 2 arguments, got 1
glow_fn.func @f(%a) {
  %r = glow_fn.prim mul(%a)
  glow_fn.return %r
}

// -----

// expected-error@unknown {{glow_fn.get: no item 2 in tuple<f64, f64>}}
// CHECK: glow_fn.get: no item 2 in tuple<f64, f64>
glow_fn.func @f(%a : tuple<f64, f64>) {
  %r = glow_fn.get %a[2]
  glow_fn.return %r
}

// -----

// expected-error@unknown {{glow_fn.prim: an operand is used before its definition}}
// A value of a lambda's body is not known outside of it.
// CHECK: error: {{.*}}the program is not valid: glow_fn.prim: an operand is used before its definition
glow_fn.func @inner_value_outside(%a) {
  %s = "glow_fn.prim"(%a, %c) <{prim = "add"}> : (!glow_fn.any, !glow_fn.any) -> !glow_fn.any
  %f = glow_fn.lambda @inner(%c) {
    glow_fn.return %c
  }
  glow_fn.return %s
}

// -----

// expected-error@unknown {{glow_fn.func: the body is one block that ends with glow_fn.return}}
// CHECK: error: {{.*}}the program is not valid: glow_fn.func: the body is one block that ends with glow_fn.return
glow_fn.func @refers(%a) {
  %f = glow_fn.ref @without_return
  glow_fn.return %f
}
glow_fn.func @without_return(%a) {
  %b = glow_fn.prim sin(%a)
}

// -----

// expected-error@unknown {{glow_fn.get: no item 5 in a tuple of 2}}
// CHECK: glow_fn.get: no item 5 in a tuple of 2
glow_fn.func @f(%a) {
  %t = glow_fn.tuple %a, %a
  %r = glow_fn.get %t[5]
  glow_fn.return %r
}

// -----

// expected-error@unknown {{glow_fn.grad: a function is needed, got f64}}
// CHECK: glow_fn.grad: a function is needed, got f64
glow_fn.func @f(%a : f64) {
  %g = glow_fn.grad %a by 0
  glow_fn.return %g
}

// -----

// expected-error@unknown {{glow_fn.constant: "abc" is not f64}}
// CHECK: glow_fn.constant: "abc" is not f64
glow_fn.func @f() {
  %t = glow_fn.constant "abc" : f64
  glow_fn.return %t
}
