// RUN: glow-opt %s -p "glow-tail-calls{small=4}" | filecheck %s
// RUN: glow-opt %s -p "glow-tail-calls{small=3}" | filecheck %s --check-prefix SMALLER

// Functions of at most `small` operations, the return included, join their cycle.
// CHECK-NOT:     glow_fn.ref @ping
// CHECK-LABEL:   glow_fn.func @pong(%x) {
// CHECK-NEXT:      %{{.*}} = glow_fn.prim sin(%x)
// CHECK:           %[[Z:.*]] = glow_fn.prim cos(
// CHECK-NEXT:      %[[P:.*]] = glow_fn.ref @pong
// CHECK-NEXT:      %[[R:.*]] = glow_fn.call %[[P]](%[[Z]])
// CHECK-NEXT:      glow_fn.return %[[R]]
// SMALLER-LABEL: glow_fn.func @ping(
// SMALLER:         glow_fn.ref @pong
// SMALLER-LABEL: glow_fn.func @pong(
// SMALLER:         glow_fn.ref @ping
glow_fn.func @main(%x) {
  %f = glow_fn.ref @pong
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @ping(%x) {
  %y = glow_fn.prim cos(%x)
  %f = glow_fn.ref @pong
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
glow_fn.func @pong(%x) {
  %y = glow_fn.prim sin(%x)
  %z = glow_fn.prim exp(%y)
  %f = glow_fn.ref @ping
  %r = glow_fn.call %f(%z)
  glow_fn.return %r
}

// The mark of a recursion that the user wrote goes with its body.
// CHECK-NOT:     glow_fn.ref @inner
// CHECK-LABEL:   glow_fn.func @outer(%x) attributes {counted} {
// CHECK-NEXT:      %[[Y:.*]] = glow_fn.prim sin(%x)
// CHECK:           glow_fn.ref @outer
glow_fn.func @main_counted(%x) {
  %f = glow_fn.ref @outer
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @inner(%x) attributes {counted} {
  %f = glow_fn.ref @outer
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @outer(%x) {
  %y = glow_fn.prim sin(%x)
  %z = glow_fn.prim exp(%y)
  %f = glow_fn.ref @inner
  %r = glow_fn.call %f(%z)
  glow_fn.return %r
}

// A function that calls itself is a loop already; one whose gradient is declared has to stay.
// CHECK-LABEL:   glow_fn.func @loop(%x) {
// CHECK:           glow_fn.ref @loop
// CHECK:           glow_fn.ref @into_loop
// CHECK-LABEL:   glow_fn.func @into_loop(%x) {
// CHECK:           %[[F:.*]] = glow_fn.ref @loop
// CHECK-NEXT:      glow_fn.call %[[F]](
glow_fn.func @main_loop(%x) {
  %f = glow_fn.ref @loop
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @loop(%x) {
  %f = glow_fn.ref @loop
  %g = glow_fn.ref @into_loop
  %r = glow_fn.call %g(%f)
  glow_fn.return %r
}
glow_fn.func @into_loop(%x) {
  %a = glow_fn.prim sin(%x)
  %b = glow_fn.prim sin(%a)
  %f = glow_fn.ref @loop
  %r = glow_fn.call %f(%b)
  glow_fn.return %r
}
// CHECK-LABEL:   glow_fn.func @declared(%x) attributes {gradient = @slope} {
// CHECK-LABEL:   glow_fn.func @calls_declared(%x) {
// CHECK:           glow_fn.ref @declared
glow_fn.func @slope(%d, %y, %x) {
  glow_fn.return %d
}
glow_fn.func @main_declared(%x) {
  %f = glow_fn.ref @declared
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @declared(%x) attributes {gradient = @slope} {
  %f = glow_fn.ref @calls_declared
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @calls_declared(%x) {
  %a = glow_fn.prim sin(%x)
  %b = glow_fn.prim sin(%a)
  %f = glow_fn.ref @declared
  %r = glow_fn.call %f(%b)
  glow_fn.return %r
}

// Only the callers of its cycle take it in: others, and calls whose value is used further, keep the call.
// CHECK-LABEL:   glow_fn.func @beside(%x) {
// CHECK-NEXT:      %f = glow_fn.ref @depth
// CHECK-NEXT:      %r = glow_fn.call %f(%x)
// CHECK-NEXT:      glow_fn.return %r
// CHECK-LABEL:   glow_fn.func @depth(%x) {
// CHECK-NEXT:      %f = glow_fn.ref @more
// CHECK-LABEL:   glow_fn.func @more(%x) {
// CHECK:           %[[R:.*]] = glow_fn.call %{{.*}}(
// CHECK-NEXT:      %[[S:.*]] = glow_fn.prim exp(%[[R]])
// CHECK-NEXT:      glow_fn.return %[[S]]
glow_fn.func @beside(%x) {
  %f = glow_fn.ref @depth
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @depth(%x) {
  %f = glow_fn.ref @more
  %r = glow_fn.call %f(%x)
  %s = glow_fn.prim sin(%r)
  glow_fn.return %s
}
glow_fn.func @more(%x) {
  %a = glow_fn.prim sin(%x)
  %f = glow_fn.ref @depth
  %r = glow_fn.call %f(%a)
  %s = glow_fn.prim exp(%r)
  glow_fn.return %s
}

// Three functions in a circle become one, with the bodies in the order of the calls.
// CHECK-LABEL:   glow_fn.func @circle(%x) {
// CHECK-NEXT:      %[[A:.*]] = glow_fn.prim sin(%x)
// CHECK:           %[[B:.*]] = glow_fn.prim cos(%[[A]])
// CHECK:           %[[C:.*]] = glow_fn.prim exp(%[[B]])
// CHECK:           %[[F:.*]] = glow_fn.ref @circle
// CHECK-NEXT:      glow_fn.call %[[F]](%[[C]])
glow_fn.func @circle_first(%x) {
  %y = glow_fn.prim cos(%x)
  %f = glow_fn.ref @circle_second
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
glow_fn.func @circle_second(%x) {
  %y = glow_fn.prim exp(%x)
  %f = glow_fn.ref @circle
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
glow_fn.func @circle(%x) {
  %y = glow_fn.prim sin(%x)
  %f = glow_fn.ref @circle_first
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
glow_fn.func @main_circle(%x) {
  %f = glow_fn.ref @circle
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}

// A call whose value another call takes as well is not the last.
// CHECK-LABEL:   glow_fn.func @also_used(%x) {
// CHECK-NEXT:      %f = glow_fn.ref @back_to_it
// CHECK-NEXT:      %r = glow_fn.call %f(%x)
glow_fn.func @main_also_used(%x) {
  %f = glow_fn.ref @also_used
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
glow_fn.func @also_used(%x) {
  %f = glow_fn.ref @back_to_it
  %r = glow_fn.call %f(%x)
  %g = glow_fn.ref @depth
  %z = glow_fn.call %g(%r)
  glow_fn.return %r
}
glow_fn.func @back_to_it(%x) {
  %y = glow_fn.prim sin(%x)
  %f = glow_fn.ref @also_used
  %r = glow_fn.call %f(%y)
  glow_fn.return %r
}
