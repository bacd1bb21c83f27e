// RUN: glow-opt %s -p glow-lift-closures | filecheck %s
// RUN: glow-opt %s -p glow-expand-grad | filecheck %s --check-prefix GRAD

// The programs of the MindIR document.

// CHECK-LABEL: glow_fn.func @test_f(%x, %y) {
// CHECK:         %[[F:.*]] = glow_fn.ref @func
// CHECK-NEXT:    glow_fn.call %[[F]](%a, %b)
glow_fn.func @func(%x, %y) {
  %r = glow_fn.prim div(%x, %y)
  glow_fn.return %r
}
glow_fn.func @test_f(%x, %y) {
  %one = glow_fn.constant 1 : i64
  %a = glow_fn.prim sub(%x, %one)
  %b = glow_fn.prim add(%a, %y)
  %f = glow_fn.ref @func
  %r = glow_fn.call %f(%a, %b)
  %c = glow_fn.prim mul(%b, %r)
  glow_fn.return %c
}

// CHECK-LABEL: glow_fn.func @hof(%x) {
// CHECK:         %[[G:.*]] = glow_fn.ref @g
// CHECK:         %[[F:.*]] = glow_fn.ref @f
// CHECK-NOT:     glow_fn.lambda
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

// Selection of functions, then a call.
// CHECK-LABEL: glow_fn.func @fibonacci(%n) {
// CHECK:         %[[P:.*]] = glow_fn.partial %{{.*}}(%n)
// CHECK-NEXT:    %[[S:.*]] = glow_fn.switch %c, %{{.*}}, %[[P]]
// CHECK-NEXT:    glow_fn.call %[[S]]()
glow_fn.func @fibonacci(%n) {
  %two = glow_fn.constant 2 : i64
  %c = glow_fn.prim lt(%n, %two)
  %yes = glow_fn.lambda @base() {
    %zero = glow_fn.constant 0 : i64
    glow_fn.return %zero
  }
  %no = glow_fn.lambda @step() {
    %one = glow_fn.constant 1 : i64
    %a = glow_fn.prim sub(%n, %one)
    %f = glow_fn.ref @fibonacci
    %r = glow_fn.call %f(%a)
    glow_fn.return %r
  }
  %s = glow_fn.switch %c, %yes, %no
  %r = glow_fn.call %s()
  glow_fn.return %r
}

// A gradient makes forward forms of all that it reaches; the tail call passes its backward step on.
// GRAD-LABEL: glow_fn.func @fibonacci.fwd(%n, %{{.*}}) {
// GRAD:         %[[K:.*]] = glow_fn.partial %{{.*}}(%c, %{{.*}})
// GRAD-NEXT:    %[[R:.*]] = glow_fn.call %{{.*}}(%[[K]])
// GRAD-NEXT:    glow_fn.return %[[R]]
glow_fn.func @slope(%x) {
  %f = glow_fn.ref @fibonacci
  %d = glow_fn.value_and_grad %f by [0]
  %r = glow_fn.call %d(%x)
  glow_fn.return %r
}
