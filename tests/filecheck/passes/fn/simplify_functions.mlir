// RUN: glow-opt %s -p glow-simplify-functions | filecheck %s
// RUN: glow-opt %s -p glow-expand-grad,glow-simplify-functions | filecheck %s --check-prefix GRAD

// The seed's higher-order program becomes straight code.
// CHECK-LABEL: glow_fn.func @hof(%x) {
// CHECK-NEXT:    %three = glow_fn.constant 3 : i64
// CHECK-NEXT:    %[[A:.*]] = glow_fn.prim add(%x, %three)
// CHECK-NEXT:    %[[B:.*]] = glow_fn.prim mul(%[[A]], %[[A]])
// CHECK-NEXT:    glow_fn.return %[[B]]
glow_fn.func @hof(%x) {
  %g = glow_fn.lambda @g(%function, %v) {
    %p = glow_fn.call %function(%v)
    %q = glow_fn.call %function(%v)
    %r = glow_fn.prim mul(%p, %q)
    glow_fn.return %r
  }
  %f = glow_fn.lambda @f(%v) {
    %three = glow_fn.constant 3 : i64
    %r = glow_fn.prim add(%v, %three)
    glow_fn.return %r
  }
  %res = glow_fn.call %g(%f, %x)
  glow_fn.return %res
}

// Selections by constants, tuples, constants, partial of partial.
// CHECK-LABEL: glow_fn.func @known(%x, %y) {
// CHECK-NEXT:    %[[C:.*]] = glow_fn.constant 6 : i64
// CHECK-NEXT:    %[[R:.*]] = glow_fn.prim mul(%x, %[[C]])
// CHECK-NEXT:    glow_fn.return %[[R]]
glow_fn.func @known(%x, %y) {
  %two = glow_fn.constant 2 : i64
  %three = glow_fn.constant 3 : i64
  %six = glow_fn.prim mul(%two, %three)
  %c = glow_fn.prim lt(%two, %three)
  %t = glow_fn.tuple %y, %x
  %i = glow_fn.get %t[1]
  %s = glow_fn.switch %c, %i, %y
  %r = glow_fn.prim mul(%s, %six)
  glow_fn.return %r
}

// A recursive function is not inlined into itself.
// CHECK-LABEL: glow_fn.func @again(%x) {
// CHECK:         glow_fn.call
glow_fn.func @again(%x) {
  %f = glow_fn.ref @again
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}

// A first-order gradient has no calls.
// GRAD-LABEL: glow_fn.func @slope(%x) {
// GRAD-NOT:     glow_fn.call
// GRAD:         glow_fn.return
glow_fn.func @square(%x) {
  %y = glow_fn.prim mul(%x, %x)
  glow_fn.return %y
}
glow_fn.func @slope(%x) {
  %f = glow_fn.ref @square
  %d = glow_fn.grad %f by 0
  %r = glow_fn.call %d(%x)
  glow_fn.return %r
}
