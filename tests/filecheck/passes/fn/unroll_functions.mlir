// RUN: glow-opt %s -p "glow-unroll-functions{count=4}" | filecheck %s
// RUN: glow-opt %s -p "glow-unroll-functions{count=2}" | filecheck %s --check-prefix FEW

// Three turns that constants decide about: straight code, and the loop is gone.
// CHECK-NOT:   glow_fn.func @fold
// CHECK-LABEL: glow_fn.func @main(%x, %k) {
// CHECK-NEXT:    %[[A:.*]] = glow_fn.prim mul(%x, %k)
// CHECK-NEXT:    %[[B:.*]] = glow_fn.prim mul(%[[A]], %k)
// CHECK-NEXT:    %[[C:.*]] = glow_fn.prim mul(%[[B]], %k)
// CHECK-NEXT:    glow_fn.return %[[C]]

// Too many turns: the call stays.
// FEW-LABEL: glow_fn.func @main(%x, %k) {
// FEW:         glow_fn.ref @fold
// FEW-NEXT:    glow_fn.call
glow_fn.func @fold(%f, %n, %x) {
  %zero = glow_fn.constant 0 : i64
  %c = glow_fn.prim le(%n, %zero)
  %done = glow_fn.lambda @done() {
    glow_fn.return %x
  }
  %more = glow_fn.lambda @more() {
    %one = glow_fn.constant 1 : i64
    %m = glow_fn.prim sub(%n, %one)
    %y = glow_fn.call %f(%x)
    %g = glow_fn.ref @fold
    %r = glow_fn.call %g(%f, %m, %y)
    glow_fn.return %r
  }
  %s = glow_fn.switch %c, %done, %more
  %r = glow_fn.call %s()
  glow_fn.return %r
}
glow_fn.func @main(%x, %k) {
  %n = glow_fn.constant 3 : i64
  %f = glow_fn.lambda @scale(%v) {
    %r = glow_fn.prim mul(%v, %k)
    glow_fn.return %r
  }
  %g = glow_fn.ref @fold
  %r = glow_fn.call %g(%f, %n, %x)
  glow_fn.return %r
}
