// RUN: glow-opt %s -p glow-specialize-known | filecheck %s

// A recursion that is given a known function: the copy has what the function captured as a parameter, and
// the recursion goes on in the copies. Nothing refers to the original any more.

// CHECK-NOT:   glow_fn.func @fold(
// CHECK-LABEL: glow_fn.func @fold.scale(
// CHECK:         %[[M:.*]] = glow_fn.ref @more.scale
// CHECK-LABEL: glow_fn.func @main(%x, %k, %n) {
// CHECK:         %[[F:.*]] = glow_fn.ref @fold.scale
// CHECK-NEXT:    glow_fn.call %[[F]](%k, %n, %x)
// CHECK-LABEL: glow_fn.func @more.scale(
// CHECK-NEXT:    %[[S:.*]] = glow_fn.ref @scale
// CHECK-NEXT:    %f = glow_fn.partial %[[S]](%{{.*}})
// CHECK:         glow_fn.call %f(%x)
// CHECK-NEXT:    %{{.*}} = glow_fn.ref @fold.scale
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
glow_fn.func @main(%x, %k, %n) {
  %f = glow_fn.lambda @scale(%v) {
    %r = glow_fn.prim mul(%v, %k)
    glow_fn.return %r
  }
  %g = glow_fn.ref @fold
  %r = glow_fn.call %g(%f, %n, %x)
  glow_fn.return %r
}
