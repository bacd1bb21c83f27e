// RUN: glow-opt %s -p glow-lift-closures | filecheck %s

// Captured values become the first parameters; constants are made anew; a recursive lambda refers to
// itself by symbol.

// CHECK-LABEL: glow_fn.func @loop(%x) {
// CHECK:         %[[F:.*]] = glow_fn.ref @body
// CHECK-NEXT:    %[[P:.*]] = glow_fn.partial %[[F]](%x)
// CHECK-NEXT:    %r = glow_fn.call %[[P]](%x)
// CHECK-LABEL: glow_fn.func @body(%x, %i) {
// CHECK-NEXT:    %[[G:.*]] = glow_fn.ref @body
// CHECK-NEXT:    %[[Q:.*]] = glow_fn.partial %[[G]](%x)
// CHECK-NEXT:    %{{.*}} = glow_fn.constant 1 : i64
// CHECK:         glow_fn.call %[[Q]](%{{.*}})
glow_fn.func @loop(%x) {
  %one = glow_fn.constant 1 : i64
  %f = glow_fn.lambda rec @body(%self, %i) {
    %a = glow_fn.prim sub(%i, %one)
    %b = glow_fn.prim mul(%a, %x)
    %c = glow_fn.call %self(%b)
    glow_fn.return %c
  }
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
