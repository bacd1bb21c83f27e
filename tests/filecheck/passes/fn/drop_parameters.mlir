// RUN: glow-opt %s -p glow-drop-parameters | filecheck %s

// %a is only handed on, %b is not used: both go, with what was bound to them. Roots keep theirs.
// CHECK-LABEL: glow_fn.func @loop(%x) {
// CHECK:         %[[F:.*]] = glow_fn.ref @loop
// CHECK-NEXT:    glow_fn.call %[[F]](%{{.*}})
glow_fn.func @loop(%a, %x, %b) {
  %y = glow_fn.prim sin(%x)
  %z = glow_fn.prim cos(%x)
  %f = glow_fn.ref @loop
  %r = glow_fn.call %f(%a, %y, %z)
  glow_fn.return %r
}
// CHECK-LABEL: glow_fn.func @main(%x, %unused) {
// CHECK-NEXT:    %f = glow_fn.ref @loop
// CHECK-NEXT:    %r = glow_fn.call %f(%x)
glow_fn.func @main(%x, %unused) {
  %w = glow_fn.prim exp(%x)
  %f = glow_fn.ref @loop
  %r = glow_fn.call %f(%w, %x, %x)
  glow_fn.return %r
}

// What others call with values of their own keeps its parameters; what is bound to it at hand need not.
// CHECK-LABEL: glow_fn.func @second(%y) {
glow_fn.func @second(%x, %y) {
  glow_fn.return %y
}
// CHECK-LABEL: glow_fn.func @ignoring(%x) {
glow_fn.func @ignoring(%x) {
  %one = glow_fn.constant 1 : i64
  glow_fn.return %one
}
// CHECK-LABEL: glow_fn.func @escaping(%x) {
// CHECK:         glow_fn.tuple
glow_fn.func @escaping(%x) {
  %f = glow_fn.ref @second
  %p = glow_fn.partial %f(%x)
  %g = glow_fn.ref @ignoring
  %t = glow_fn.tuple %p, %g
  glow_fn.return %t
}

// A recursion that nothing else calls is called from outside.
// CHECK-LABEL: glow_fn.func @endless(%x) {
// CHECK:         glow_fn.call %{{.*}}(%x)
glow_fn.func @endless(%x) {
  %f = glow_fn.ref @endless
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}

// What all calls give twice is one parameter.
// CHECK-LABEL: glow_fn.func @twice(%x, %y) {
// CHECK-NEXT:    %s = glow_fn.prim mul(%x, %x)
// CHECK:         glow_fn.call %{{.*}}(%x, %s)
glow_fn.func @twice(%x, %y, %z) {
  %s = glow_fn.prim mul(%x, %z)
  %d = glow_fn.prim add(%s, %y)
  %f = glow_fn.ref @twice
  %r = glow_fn.call %f(%z, %s, %x)
  glow_fn.return %r
}
glow_fn.func @call_twice(%x, %y) {
  %f = glow_fn.ref @twice
  %r = glow_fn.call %f(%x, %y, %x)
  glow_fn.return %r
}
