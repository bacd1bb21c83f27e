// RUN: glow-opt %s -p glow-expand-grad | filecheck %s
// RUN: glow-opt %s -p "glow-expand-grad{mode=forward}" | filecheck %s --check-prefix AHEAD

// The gradient of a function is that of its forward form, which returns a backpropagator.

// CHECK-LABEL: glow_fn.func @slope(%x) {
// CHECK-NEXT:    %[[G:.*]] = glow_fn.ref @grad.1.0
// CHECK-NEXT:    %[[F:.*]] = glow_fn.ref @square.fwd
// CHECK-NEXT:    %[[P:.*]] = glow_fn.partial %[[G]](%[[F]])
// CHECK-NEXT:    glow_fn.call %[[P]](%x)
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

// CHECK-LABEL: glow_fn.func @square.bwd(%x, %{{.*}}, %{{.*}}) {
// CHECK:         %[[L:.*]] = glow_fn.prim mul(%{{.*}}, %x)
// CHECK:         %[[S:.*]] = glow_fn.prim add_any(%{{.*}}, %{{.*}})
// CHECK-NEXT:    %[[T:.*]] = glow_fn.tuple %[[S]] {of = "square"}
// CHECK-LABEL: glow_fn.func @square.fwd(%x, %{{.*}}) {
// CHECK-NEXT:    %y = glow_fn.prim mul(%x, %x)
// CHECK-NEXT:    %[[B:.*]] = glow_fn.ref @square.bwd
// CHECK-NEXT:    %[[K:.*]] = glow_fn.partial %[[B]](%x, %{{.*}})
// CHECK-NEXT:    glow_fn.tuple %y, %[[K]]

// Forward mode: each parameter is followed by its tangent.
// AHEAD-LABEL: glow_fn.func @slope(%x) {
// AHEAD-NEXT:    %[[G:.*]] = glow_fn.ref @grad.1.0.ahead
// AHEAD-NEXT:    %[[F:.*]] = glow_fn.ref @square.jvp
// AHEAD-NEXT:    glow_fn.partial %[[G]](%[[F]])
// AHEAD-LABEL: glow_fn.func @square.jvp(%x, %d_x) {
// AHEAD-NEXT:    %y = glow_fn.prim mul(%x, %x)
// AHEAD:         glow_fn.prim mul(%d_x, %x)
// AHEAD:         %[[S:.*]] = glow_fn.prim add_any(%{{.*}}, %{{.*}})
// AHEAD-NEXT:    glow_fn.tuple %y, %[[S]]

// A declared gradient is the backward step; the function itself is not differentiated.
// CHECK-LABEL: glow_fn.func @scaled.bwd(
// CHECK:         %[[D:.*]] = glow_fn.ref @double
// CHECK-NEXT:    %[[F:.*]] = glow_fn.prim fill(%{{.*}}, %{{.*}})
// CHECK-NEXT:    %[[R:.*]] = glow_fn.call %[[D]](%[[F]], %{{.*}}, %{{.*}})
// CHECK-NEXT:    glow_fn.prim check_cotangent(%[[R]], %{{.*}})
glow_fn.func @double(%d, %y, %x) {
  %two = glow_fn.constant 2.0 : f64
  %r = glow_fn.prim mul(%d, %two)
  glow_fn.return %r
}
glow_fn.func @scaled(%x) attributes {gradient = @double} {
  %y = glow_fn.prim floor(%x)
  glow_fn.return %y
}
glow_fn.func @custom(%x) {
  %f = glow_fn.ref @scaled
  %d = glow_fn.grad %f by 0
  %r = glow_fn.call %d(%x)
  glow_fn.return %r
}
