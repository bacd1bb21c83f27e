// RUN: glow-opt %s -p glow-specialize-known | filecheck %s

// Functions at two places, one with two captured values: each becomes the function itself in the copy, the
// captured values take its place in their order.
// CHECK-NOT:   glow_fn.func @both(
// CHECK-LABEL: glow_fn.func @both.plus.times(%n, %{{.*}}, %{{.*}}, %x) {
// CHECK-LABEL: glow_fn.func @main(%n, %x, %y, %z) {
// CHECK:         %[[F:.*]] = glow_fn.ref @both.plus.times
// CHECK-NEXT:    %r = glow_fn.call %[[F]](%n, %y, %z, %x)
glow_fn.func @both(%f, %n, %g, %x) {
  %a = glow_fn.call %f(%x)
  %b = glow_fn.call %g(%a)
  %h = glow_fn.ref @both
  %r = glow_fn.call %h(%f, %n, %g, %b)
  glow_fn.return %r
}
glow_fn.func @plus(%x) {
  glow_fn.return %x
}
glow_fn.func @times(%a, %b, %x) {
  %p = glow_fn.prim mul(%a, %x)
  %q = glow_fn.prim sub(%p, %b)
  glow_fn.return %q
}
glow_fn.func @main(%n, %x, %y, %z) {
  %f = glow_fn.ref @plus
  %t = glow_fn.ref @times
  %g = glow_fn.partial %t(%y, %z)
  %h = glow_fn.ref @both
  %r = glow_fn.call %h(%f, %n, %g, %x)
  glow_fn.return %r
}

// What is no loop stays: it is put in place of its call. So does what is given no known function.
// CHECK-LABEL: glow_fn.func @apply(%f, %x) {
// CHECK-LABEL: glow_fn.func @plain(%f, %x) {
// CHECK-NEXT:    %a = glow_fn.ref @apply
// CHECK-NEXT:    %p = glow_fn.ref @plus
// CHECK-NEXT:    %r = glow_fn.call %a(%p, %x)
// CHECK-NEXT:    %o = glow_fn.ref @over
// CHECK-NEXT:    %s = glow_fn.call %o(%f, %r)
// CHECK-LABEL: glow_fn.func @over(%f, %x) {
glow_fn.func @apply(%f, %x) {
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @plain(%f, %x) {
  %a = glow_fn.ref @apply
  %p = glow_fn.ref @plus
  %r = glow_fn.call %a(%p, %x)
  %o = glow_fn.ref @over
  %s = glow_fn.call %o(%f, %r)
  glow_fn.return %s
}
glow_fn.func @over(%f, %x) {
  %y = glow_fn.call %f(%x)
  %o = glow_fn.ref @over
  %r = glow_fn.call %o(%f, %y)
  glow_fn.return %r
}

// Two calls with the same function share a copy; the partial application of a loop has one too.
// CHECK-LABEL: glow_fn.func @twice(%x) {
// CHECK:         %[[F:.*]] = glow_fn.ref @over.plus
// CHECK-NEXT:    %a = glow_fn.call %[[F]](%x)
// CHECK:         %[[G:.*]] = glow_fn.ref @over.plus
// CHECK-NEXT:    %b = glow_fn.partial %[[G]]()
// CHECK-NOT:   glow_fn.func @over.plus_1
glow_fn.func @twice(%x) {
  %p = glow_fn.ref @plus
  %o = glow_fn.ref @over
  %a = glow_fn.call %o(%p, %x)
  %b = glow_fn.partial %o(%p)
  %r = glow_fn.call %b(%a)
  glow_fn.return %r
}

// A function that is given one that leads back to itself is a loop as well.
// CHECK-LABEL: glow_fn.func @knot(%x) {
// CHECK:         %[[K:.*]] = glow_fn.ref @run.back
// CHECK-NEXT:    %r = glow_fn.call %[[K]](%x)
// CHECK-LABEL: glow_fn.func @run.back(%x) {
// CHECK:         %[[B:.*]] = glow_fn.ref @back
glow_fn.func @knot(%x) {
  %b = glow_fn.ref @back
  %f = glow_fn.ref @run
  %r = glow_fn.call %f(%b, %x)
  glow_fn.return %r
}
glow_fn.func @run(%f, %x) {
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @back(%x) {
  %i = glow_fn.ref @back
  %f = glow_fn.ref @run
  %r = glow_fn.call %f(%i, %x)
  glow_fn.return %r
}

// Too many arguments are a mistake of the program's, which is told elsewhere; a declared gradient has to be found.
// CHECK-LABEL: glow_fn.func @mistaken(%x) {
// CHECK:         glow_fn.call %o(%x, %x, %p)
// CHECK-LABEL: glow_fn.func @calls_declared(%x) {
// CHECK:         glow_fn.call %d(%p, %x)
glow_fn.func @mistaken(%x) {
  %p = glow_fn.ref @plus
  %o = glow_fn.ref @over
  %r = glow_fn.call %o(%x, %x, %p)
  glow_fn.return %r
}
glow_fn.func @slope(%d, %y, %f, %x) {
  glow_fn.return %d
}
glow_fn.func @declared(%f, %x) attributes {gradient = @slope} {
  %g = glow_fn.ref @declared
  %r = glow_fn.call %g(%f, %x)
  glow_fn.return %r
}
glow_fn.func @calls_declared(%x) {
  %p = glow_fn.ref @plus
  %d = glow_fn.ref @declared
  %r = glow_fn.call %d(%p, %x)
  glow_fn.return %r
}
