// RUN: glow-opt %s -p glow-simplify-functions | filecheck %s
// RUN: glow-opt %s -p "glow-simplify-functions{limit=3}" | filecheck %s --check-prefix LIMIT

// Functions of fewer operations than the limit take in what they call.
// CHECK-LABEL: glow_fn.func @short(%x) {
// CHECK-NEXT:    %[[A:.*]] = glow_fn.prim sin(%x)
// CHECK-NEXT:    glow_fn.return %[[A]]
// LIMIT-LABEL: glow_fn.func @short(%x) {
// LIMIT-NEXT:    %f = glow_fn.ref @sine
// LIMIT-NEXT:    %r = glow_fn.call %f(%x)
glow_fn.func @sine(%x) {
  %y = glow_fn.prim sin(%x)
  glow_fn.return %y
}
glow_fn.func @short(%x) {
  %f = glow_fn.ref @sine
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}

// A function whose gradient is declared is called, so that its gradient is found.
// CHECK-LABEL: glow_fn.func @calls_declared(%x) {
// CHECK-NEXT:    %f = glow_fn.ref @declared
// CHECK-NEXT:    %r = glow_fn.call %f(%x)
glow_fn.func @slope(%d, %y, %x) {
  glow_fn.return %d
}
glow_fn.func @declared(%x) attributes {gradient = @slope} {
  %y = glow_fn.prim floor(%x)
  glow_fn.return %y
}
glow_fn.func @calls_declared(%x) {
  %f = glow_fn.ref @declared
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}

// Items of a known tuple, from either end.
// CHECK-LABEL: glow_fn.func @items(%x, %y, %z) {
// CHECK-NEXT:    %r = glow_fn.tuple %x, %z, %x, %z
glow_fn.func @items(%x, %y, %z) {
  %t = glow_fn.tuple %x, %y, %z
  %a = glow_fn.get %t[-3]
  %b = glow_fn.get %t[2]
  %c = glow_fn.get %t[0]
  %d = glow_fn.get %t[-1]
  %r = glow_fn.tuple %a, %b, %c, %d
  glow_fn.return %r
}

// Graphs of equal values differ by their nodes.
// CHECK-LABEL: glow_fn.func @graphs(%x) {
// CHECK:         glow.relu
// CHECK:         glow.sigmoid
glow_fn.func @graphs(%x) {
  %a = glow_fn.tensors(%x) {
  ^bb0(%v : tensor<3xf32>):
    %y = glow.relu %v : (tensor<3xf32>) -> tensor<3xf32>
    glow_fn.yield(%y)
  }
  %b = glow_fn.tensors(%x) {
  ^bb0(%v : tensor<3xf32>):
    %y = glow.sigmoid %v : (tensor<3xf32>) -> tensor<3xf32>
    glow_fn.yield(%y)
  }
  %r = glow_fn.tuple %a, %b
  glow_fn.return %r
}

// NumPy's sum of bools is a bool, Python's an int.
// CHECK-LABEL: glow_fn.func @bools() {
// CHECK:         %b = glow_fn.prim add(%yes, %yes) {ufunc}
// CHECK:         glow_fn.tuple %[[A:.*]], %b
glow_fn.func @bools() {
  %yes = glow_fn.constant true
  %a = glow_fn.prim add(%yes, %yes)
  %b = glow_fn.prim add(%yes, %yes) {ufunc}
  %r = glow_fn.tuple %a, %b
  glow_fn.return %r
}

// A choice between one value and itself, and choices by constants.
// CHECK-LABEL: glow_fn.func @choices(%c, %x, %y) {
// CHECK-NEXT:    %[[S:.*]] = glow_fn.switch %c, %x, %y
// CHECK-NEXT:    %r = glow_fn.tuple %x, %y, %x, %[[S]]
glow_fn.func @choices(%c, %x, %y) {
  %no = glow_fn.constant false
  %yes = glow_fn.constant true
  %a = glow_fn.switch %c, %x, %x
  %b = glow_fn.switch %no, %x, %y
  %d = glow_fn.switch %yes, %x, %y
  %e = glow_fn.switch %c, %x, %y
  %r = glow_fn.tuple %a, %b, %d, %e
  glow_fn.return %r
}

// Ints that 64 bits do not hold are no constants; the largest and the smallest that they hold are, and floats of any size.
// CHECK-LABEL: glow_fn.func @wide() {
// CHECK:         %[[P:.*]] = glow_fn.prim mul(
// CHECK-DAG:     %m = glow_fn.constant 9223372036854775807 : i64
// CHECK-DAG:     %[[L:.*]] = glow_fn.constant -9223372036854775808 : i64
// CHECK-DAG:     %[[B:.*]] = glow_fn.prim sub(
// CHECK-DAG:     %[[F:.*]] = glow_fn.constant 1.000000e+40 : f64
// CHECK:         %r = glow_fn.tuple %[[P]], %m, %[[L]], %[[B]], %[[F]]
glow_fn.func @wide() {
  %two = glow_fn.constant 2 : i64
  %half = glow_fn.constant 4611686018427387904 : i64
  %below = glow_fn.constant 9223372036854775806 : i64
  %above = glow_fn.constant -9223372036854775807 : i64
  %one = glow_fn.constant 1 : i64
  %p = glow_fn.prim mul(%half, %two)
  %m = glow_fn.prim add(%below, %one)
  %l = glow_fn.prim sub(%above, %one)
  %b = glow_fn.prim sub(%above, %two)
  %float = glow_fn.constant 1.0e+20 : f64
  %f = glow_fn.prim mul(%float, %float)
  %r = glow_fn.tuple %p, %m, %l, %b, %f
  glow_fn.return %r
}

// Equal operations are one, of whatever lines; those of other operands or other constants are not.
// CHECK-LABEL: glow_fn.func @equal(%x, %y) {
// CHECK-NEXT:    %a = glow_fn.prim sin(%x)
// CHECK-NEXT:    %c = glow_fn.prim sin(%y)
// CHECK-NEXT:    %d = glow_fn.prim cos(%x)
// CHECK-NEXT:    %r = glow_fn.tuple %a, %a, %c, %d
glow_fn.func @equal(%x, %y) {
  %a = glow_fn.prim sin(%x)
  %b = glow_fn.prim sin(%x) {line = "model.py:7"}
  %c = glow_fn.prim sin(%y)
  %d = glow_fn.prim cos(%x)
  %r = glow_fn.tuple %a, %b, %c, %d
  glow_fn.return %r
}

// Partial applications: of nothing, and of another one, whose arguments come first.
// CHECK-LABEL: glow_fn.func @partials(%f, %x, %y) {
// CHECK-NEXT:    %[[B:.*]] = glow_fn.partial %f(%x, %y)
// CHECK-NEXT:    %r = glow_fn.tuple %f, %[[B]]
glow_fn.func @partials(%f, %x, %y) {
  %a = glow_fn.partial %f()
  %b = glow_fn.partial %f(%x)
  %c = glow_fn.partial %b(%y)
  %r = glow_fn.tuple %a, %c
  glow_fn.return %r
}

// A call with too few or too many arguments is an error of the user's: it stays to be told.
// CHECK-LABEL: glow_fn.func @mistaken(%x) {
// CHECK:         glow_fn.call %{{.*}}(%x, %x)
glow_fn.func @mistaken(%x) {
  %f = glow_fn.ref @sine
  %r = glow_fn.call %f(%x, %x)
  glow_fn.return %r
}

// A call that nothing uses may not return: it stays. Values have the names of what they stand for.
// CHECK-LABEL: glow_fn.func @unused_call(%x) {
// CHECK-NEXT:    %f = glow_fn.ref @endless
// CHECK-NEXT:    %{{.*}} = glow_fn.call %f(%x)
// CHECK-NEXT:    glow_fn.return %x
glow_fn.func @endless(%x) {
  %f = glow_fn.ref @endless
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @unused_call(%x) {
  %f = glow_fn.ref @endless
  %r = glow_fn.call %f(%x)
  %s = glow_fn.prim sin(%x)
  glow_fn.return %x
}
