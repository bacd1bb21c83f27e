// RUN: glow-opt %s -p glow-tail-calls | filecheck %s

// Two functions that call each other last: one becomes a loop of both.
// CHECK-LABEL: glow_fn.func @odd(%n, %x) {
// CHECK-NOT:     glow_fn.ref @even
// CHECK:         %[[M:.*]] = glow_fn.prim sub(%n, %{{.*}})
// CHECK:         %[[K:.*]] = glow_fn.prim sub(%[[M]], %{{.*}})
// CHECK-NEXT:    %[[Y:.*]] = glow_fn.prim sin(%x)
// CHECK-NEXT:    %[[O:.*]] = glow_fn.ref @odd
// CHECK-NEXT:    glow_fn.call %[[O]](%[[K]], %[[Y]])
glow_fn.func @main(%n, %x) {
  %f = glow_fn.ref @even
  %r = glow_fn.call %f(%n, %x)
  glow_fn.return %r
}
glow_fn.func @even(%n, %x) {
  %one = glow_fn.constant 1 : i64
  %m = glow_fn.prim sub(%n, %one)
  %y = glow_fn.prim sin(%x)
  %f = glow_fn.ref @odd
  %r = glow_fn.call %f(%m, %y)
  glow_fn.return %r
}
glow_fn.func @odd(%n, %x) {
  %one = glow_fn.constant 1 : i64
  %m = glow_fn.prim sub(%n, %one)
  %f = glow_fn.ref @even
  %r = glow_fn.call %f(%m, %x)
  glow_fn.return %r
}

// A loop's header joins its body, which tests and calls itself.
// CHECK-LABEL: glow_fn.func @body(%i, %s) {
// CHECK:         %[[N:.*]] = glow_fn.prim add(%i, %{{.*}})
// CHECK:         glow_fn.prim lt(%[[N]], %{{.*}})
// CHECK:         glow_fn.ref @body
// CHECK-NOT:     glow_fn.ref @header
// CHECK:         glow_fn.return
glow_fn.func @header(%i, %s) {
  %ten = glow_fn.constant 10 : i64
  %c = glow_fn.prim lt(%i, %ten)
  %b = glow_fn.ref @body
  %more = glow_fn.partial %b(%i, %s)
  %e = glow_fn.ref @exit
  %done = glow_fn.partial %e(%s)
  %f = glow_fn.switch %c, %more, %done
  %r = glow_fn.call %f()
  glow_fn.return %r
}
glow_fn.func @body(%i, %s) {
  %one = glow_fn.constant 1 : i64
  %j = glow_fn.prim add(%i, %one)
  %t = glow_fn.prim mul(%s, %s)
  %h = glow_fn.ref @header
  %r = glow_fn.call %h(%j, %t)
  glow_fn.return %r
}
glow_fn.func @exit(%s) {
  glow_fn.return %s
}
glow_fn.func @start(%x) {
  %zero = glow_fn.constant 0 : i64
  %h = glow_fn.ref @header
  %r = glow_fn.call %h(%zero, %x)
  glow_fn.return %r
}
