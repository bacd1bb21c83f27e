// RUN: glow-opt %s -p glow-lift-closures | filecheck %s

// Names that are taken get a number; those of lambdas without one are `lambda`.
// CHECK-LABEL: glow_fn.func @taken(%x) {
// CHECK:         glow_fn.ref @taken_1
// CHECK:         glow_fn.ref @taken_2
// CHECK:         glow_fn.ref @lambda
// CHECK-LABEL: glow_fn.func @nested(%x, %y) {
// CHECK:         %[[O:.*]] = glow_fn.ref @outer
// CHECK-NEXT:    %[[P:.*]] = glow_fn.partial %[[O]](%x, %y)
// CHECK-NEXT:    %r = glow_fn.call %[[P]](%y)
// CHECK-LABEL: glow_fn.func @taken_1(%v) {
// CHECK-LABEL: glow_fn.func @taken_2(%v) {
// CHECK-LABEL: glow_fn.func @lambda(%x, %v) {
// CHECK-NEXT:    %s = glow_fn.prim mul(%v, %x)
glow_fn.func @taken(%x) {
  %f = glow_fn.lambda @taken(%v) {
    glow_fn.return %v
  }
  %g = glow_fn.lambda @taken(%v) {
    %s = glow_fn.prim sin(%v)
    glow_fn.return %s
  }
  %h = glow_fn.lambda(%v) {
    %s = glow_fn.prim mul(%v, %x)
    glow_fn.return %s
  }
  %t = glow_fn.tuple %f, %g, %h
  glow_fn.return %t
}

// A lambda in a lambda captures what both capture, once each; a constant of the function outside is made anew
// in each that uses it.
// CHECK-LABEL: glow_fn.func @inner(%x, %y, %a, %b) {
// CHECK-NEXT:    %[[T:.*]] = glow_fn.constant 2 : i64
// CHECK-NEXT:    %p = glow_fn.prim mul(%b, %[[T]])
// CHECK-NEXT:    %q = glow_fn.prim mul(%p, %x)
// CHECK-NEXT:    %s = glow_fn.prim add(%q, %y)
// CHECK-NEXT:    %t = glow_fn.prim add(%s, %x)
// CHECK-NEXT:    %u = glow_fn.prim sub(%t, %a)
// CHECK-NEXT:    %v = glow_fn.prim sub(%u, %[[T]])
// CHECK-LABEL: glow_fn.func @outer(%x, %y, %a) {
// CHECK:         glow_fn.partial %{{.*}}(%x, %y, %a)
glow_fn.func @nested(%x, %y) {
  %two = glow_fn.constant 2 : i64
  %f = glow_fn.lambda @outer(%a) {
    %g = glow_fn.lambda @inner(%b) {
      %p = glow_fn.prim mul(%b, %two)
      %q = glow_fn.prim mul(%p, %x)
      %s = glow_fn.prim add(%q, %y)
      %t = glow_fn.prim add(%s, %x)
      %u = glow_fn.prim sub(%t, %a)
      %v = glow_fn.prim sub(%u, %two)
      glow_fn.return %v
    }
    %r = glow_fn.call %g(%a)
    glow_fn.return %r
  }
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
