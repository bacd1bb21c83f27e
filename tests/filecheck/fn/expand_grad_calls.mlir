// RUN: glow-opt %s -p glow-expand-grad | filecheck %s

// The last call of a function takes its backward step along, so that a loop is one in both directions: what
// the call returns is returned. Another call has a step of its own, which the backward function calls.

// CHECK-LABEL: glow_fn.func @half.bwd(
// CHECK-LABEL: glow_fn.func @half.fwd(%x, %{{.*}}) {
// CHECK:         %[[B:.*]] = glow_fn.ref @half.bwd
// CHECK-NEXT:    %[[S:.*]] = glow_fn.partial %[[B]](
// CHECK-NEXT:    %[[R:.*]] = glow_fn.call %{{.*}}(%{{.*}}, %[[S]])
// CHECK-NEXT:    glow_fn.return %[[R]]
// CHECK-LABEL: glow_fn.func @twice.bwd(
// CHECK:         glow_fn.call
// CHECK-LABEL: glow_fn.func @twice.fwd(%x, %{{.*}}) {
// CHECK:         %[[I:.*]] = glow_fn.ref @identity.fn
// CHECK-NEXT:    %[[P:.*]] = glow_fn.call %{{.*}}(%x, %[[I]])
// CHECK-NEXT:    %[[V:.*]] = glow_fn.get %[[P]][0]
// CHECK-NEXT:    %[[K:.*]] = glow_fn.get %[[P]][1]
// CHECK-NEXT:    %[[Y:.*]] = glow_fn.prim mul(%[[V]], %[[V]])
// CHECK:         %[[Q:.*]] = glow_fn.partial %{{.*}}(
// CHECK-NEXT:    %[[T:.*]] = glow_fn.tuple %[[Y]], %[[Q]]
// CHECK-NEXT:    glow_fn.return %[[T]]
glow_fn.func @half(%x) {
  %y = glow_fn.prim sin(%x)
  %f = glow_fn.ref @half
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
glow_fn.func @twice(%x) {
  %f = glow_fn.ref @half
  %r = glow_fn.call %f(%x)
  %s = glow_fn.prim mul(%r, %r)
  glow_fn.return %s
}
glow_fn.func @slopes(%x) {
  %f = glow_fn.ref @half
  %d = glow_fn.grad %f by 0
  %g = glow_fn.ref @twice
  %e = glow_fn.grad %g by 0
  %a = glow_fn.call %d(%x)
  %b = glow_fn.call %e(%a)
  glow_fn.return %b
}
