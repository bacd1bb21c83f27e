// RUN: glow-opt %s -p "glow-unroll-functions{count=3}" | filecheck %s
// RUN: glow-opt %s -p "glow-unroll-functions{count=2}" | filecheck %s --check-prefix TWO
// RUN: glow-opt %s -p "glow-unroll-functions{count=3 limit=5}" | filecheck %s --check-prefix SMALL
// RUN: glow-opt %s -p glow-unroll-functions | filecheck %s --check-prefix DEFAULT

// A loop of exactly `count` turns is written out, one of a turn more stays; so does one that grows too large.
// CHECK-LABEL: glow_fn.func @three(%x) {
// CHECK-NEXT:    %[[A:.*]] = glow_fn.prim sin(%x)
// CHECK-NEXT:    %[[B:.*]] = glow_fn.prim sin(%[[A]])
// CHECK-NEXT:    %[[C:.*]] = glow_fn.prim sin(%[[B]])
// CHECK-NEXT:    glow_fn.return %[[C]]
// TWO-LABEL:   glow_fn.func @three(%x) {
// TWO:           glow_fn.ref @turn
// TWO:           glow_fn.call
// TWO-LABEL:   glow_fn.func @one_of_two(
// SMALL-LABEL: glow_fn.func @three(%x) {
// SMALL:         glow_fn.ref @turn
// SMALL-LABEL: glow_fn.func @one_of_two(
glow_fn.func @turn(%n, %x) {
  %zero = glow_fn.constant 0 : i64
  %c = glow_fn.prim le(%n, %zero)
  %d = glow_fn.ref @done
  %done = glow_fn.partial %d(%x)
  %m = glow_fn.ref @more
  %more = glow_fn.partial %m(%n, %x)
  %s = glow_fn.switch %c, %done, %more
  %r = glow_fn.call %s()
  glow_fn.return %r
}
glow_fn.func @done(%x) {
  glow_fn.return %x
}
glow_fn.func @more(%n, %x) {
  %one = glow_fn.constant 1 : i64
  %m = glow_fn.prim sub(%n, %one)
  %y = glow_fn.prim sin(%x)
  %g = glow_fn.ref @turn
  %r = glow_fn.call %g(%m, %y)
  glow_fn.return %r
}
glow_fn.func @three(%x) {
  %n = glow_fn.constant 3 : i64
  %g = glow_fn.ref @turn
  %r = glow_fn.call %g(%n, %x)
  glow_fn.return %r
}

// Of two loops, the one whose turns are known is written out, whichever comes first.
// CHECK-LABEL: glow_fn.func @one_of_two(%n, %x) {
// CHECK:         %[[F:.*]] = glow_fn.ref @turn
// CHECK:         %[[A:.*]] = glow_fn.call %[[F]](%n, %x)
// CHECK:         %[[B:.*]] = glow_fn.prim sin(%[[A]])
// CHECK-NEXT:    %[[C:.*]] = glow_fn.prim sin(%[[B]])
// CHECK-NEXT:    glow_fn.return %[[C]]
glow_fn.func @one_of_two(%n, %x) {
  %g = glow_fn.ref @turn
  %a = glow_fn.call %g(%n, %x)
  %two = glow_fn.constant 2 : i64
  %r = glow_fn.call %g(%two, %a)
  glow_fn.return %r
}

// Both of two loops, one after the other.
// CHECK-LABEL: glow_fn.func @both(%x) {
// CHECK-NEXT:    %[[A:.*]] = glow_fn.prim sin(%x)
// CHECK-NEXT:    %[[B:.*]] = glow_fn.prim cos(%[[A]])
// CHECK-NEXT:    %[[C:.*]] = glow_fn.prim sin(%[[B]])
// CHECK-NEXT:    %[[D:.*]] = glow_fn.prim sin(%[[C]])
// CHECK-NEXT:    glow_fn.return %[[D]]
glow_fn.func @both(%x) {
  %one = glow_fn.constant 1 : i64
  %g = glow_fn.ref @turn
  %a = glow_fn.call %g(%one, %x)
  %b = glow_fn.prim cos(%a)
  %two = glow_fn.constant 2 : i64
  %r = glow_fn.call %g(%two, %b)
  glow_fn.return %r
}

// What calls no loop stays as it is, though it is given one.
// CHECK-LABEL: glow_fn.func @given_a_loop(%x) {
// CHECK-NEXT:    %g = glow_fn.ref @turn
// CHECK-NEXT:    %i = glow_fn.ref @ignoring
// CHECK-NEXT:    %r = glow_fn.call %i(%g, %x)
glow_fn.func @ignoring(%f, %x) {
  %y = glow_fn.prim sin(%x)
  glow_fn.return %y
}
glow_fn.func @given_a_loop(%x) {
  %g = glow_fn.ref @turn
  %i = glow_fn.ref @ignoring
  %r = glow_fn.call %i(%g, %x)
  glow_fn.return %r
}

// Fewer calls of other functions are no reason to write out the first turn of a loop of unknown turns.
// CHECK-LABEL: glow_fn.func @beside_others(%n, %x) {
// CHECK:         %g = glow_fn.ref @turn
// CHECK-NEXT:    %r = glow_fn.call %g(%n, %b)
glow_fn.func @sine(%x) {
  %y = glow_fn.prim sin(%x)
  glow_fn.return %y
}
glow_fn.func @beside_others(%n, %x) {
  %f = glow_fn.ref @sine
  %a = glow_fn.call %f(%x)
  %b = glow_fn.call %f(%a)
  %g = glow_fn.ref @turn
  %r = glow_fn.call %g(%n, %b)
  glow_fn.return %r
}

// Nor is a loop that is handed to too many turns, or to calls with other numbers of arguments.
// CHECK-LABEL: glow_fn.func @five(%x) {
// CHECK-NEXT:    %n = glow_fn.constant 5 : i64
// CHECK-NEXT:    %t = glow_fn.ref @turn
// CHECK-NEXT:    %g = glow_fn.ref @carry
// CHECK-NEXT:    %r = glow_fn.call %g(%t, %n, %x)
// CHECK-LABEL: glow_fn.func @mistaken(%x) {
// CHECK-NEXT:    %t = glow_fn.ref @turn
// CHECK-NEXT:    %g = glow_fn.ref @wrong
// CHECK-NEXT:    %r = glow_fn.call %g(%t, %x)
glow_fn.func @carry(%f, %n, %x) {
  %zero = glow_fn.constant 0 : i64
  %c = glow_fn.prim le(%n, %zero)
  %d = glow_fn.ref @done
  %done = glow_fn.partial %d(%x)
  %m = glow_fn.ref @carry_more
  %more = glow_fn.partial %m(%n, %x)
  %s = glow_fn.switch %c, %done, %more
  %r = glow_fn.call %s()
  glow_fn.return %r
}
glow_fn.func @carry_more(%n, %x) {
  %one = glow_fn.constant 1 : i64
  %m = glow_fn.prim sub(%n, %one)
  %y = glow_fn.prim sin(%x)
  %f = glow_fn.ref @sine
  %g = glow_fn.ref @carry
  %r = glow_fn.call %g(%f, %m, %y)
  glow_fn.return %r
}
glow_fn.func @five(%x) {
  %n = glow_fn.constant 5 : i64
  %t = glow_fn.ref @turn
  %g = glow_fn.ref @carry
  %r = glow_fn.call %g(%t, %n, %x)
  glow_fn.return %r
}
glow_fn.func @wrong(%f, %x) {
  %g = glow_fn.ref @wrong
  %r = glow_fn.call %g(%x)
  glow_fn.return %r
}
glow_fn.func @mistaken(%x) {
  %t = glow_fn.ref @turn
  %g = glow_fn.ref @wrong
  %r = glow_fn.call %g(%t, %x)
  glow_fn.return %r
}

// Eight turns are written out where nothing else is asked for.
// DEFAULT-LABEL: glow_fn.func @eight(%x) {
// DEFAULT-NOT:     glow_fn.ref @turn
// DEFAULT-LABEL: glow_fn.func @nine(%x) {
// DEFAULT:         glow_fn.ref @turn
glow_fn.func @eight(%x) {
  %n = glow_fn.constant 8 : i64
  %g = glow_fn.ref @turn
  %r = glow_fn.call %g(%n, %x)
  glow_fn.return %r
}
glow_fn.func @nine(%x) {
  %n = glow_fn.constant 9 : i64
  %g = glow_fn.ref @turn
  %r = glow_fn.call %g(%n, %x)
  glow_fn.return %r
}
