// RUN: glow-opt %s -p glow-drop-parameters | filecheck %s

// A parameter that one function hands to another, which ignores it, goes in both; one that the other uses stays.
// CHECK-LABEL: glow_fn.func @first(%x) {
// CHECK-NEXT:    %g = glow_fn.ref @second
// CHECK-NEXT:    %r = glow_fn.call %g(%x)
// CHECK-LABEL: glow_fn.func @second(%b) {
// CHECK-NEXT:    %s = glow_fn.prim sin(%b)
// CHECK-LABEL: glow_fn.func @main(%x, %y) {
// CHECK:         glow_fn.call %{{.*}}(%x)
glow_fn.func @first(%unused, %x) {
  %g = glow_fn.ref @second
  %r = glow_fn.call %g(%unused, %x)
  glow_fn.return %r
}
glow_fn.func @second(%a, %b) {
  %s = glow_fn.prim sin(%b)
  glow_fn.return %s
}
glow_fn.func @main(%x, %y) {
  %f = glow_fn.ref @first
  %r = glow_fn.call %f(%y, %x)
  glow_fn.return %r
}

// What is passed as a value is used, even to a function that drops the parameter at another place.
// CHECK-LABEL: glow_fn.func @apply(%f) {
// CHECK-NEXT:    %r = glow_fn.call %f(%f)
// CHECK-LABEL: glow_fn.func @start(%x) {
// CHECK:         glow_fn.call %{{.*}}(%x)
glow_fn.func @apply(%f, %n) {
  %r = glow_fn.call %f(%f)
  glow_fn.return %r
}
glow_fn.func @start(%x) {
  %f = glow_fn.ref @apply
  %r = glow_fn.call %f(%x, %x)
  glow_fn.return %r
}

// All places must have a parameter at hand: of one that some bind, and others call later, it stays.
// CHECK-LABEL: glow_fn.func @partly(%a, %b) {
// CHECK-LABEL: glow_fn.func @binds(%x) {
// CHECK:         %p = glow_fn.partial %f(%x)
// CHECK:         glow_fn.call %p(%x)
glow_fn.func @partly(%a, %b) {
  glow_fn.return %a
}
glow_fn.func @binds(%x) {
  %f = glow_fn.ref @partly
  %p = glow_fn.partial %f(%x)
  %q = glow_fn.call %p(%x)
  glow_fn.return %q
}

// A declared gradient gets what its function gives it; that function keeps its parameters too.
// CHECK-LABEL: glow_fn.func @slope(%d, %y, %x) {
// CHECK-LABEL: glow_fn.func @declared(%x) attributes {gradient = @slope} {
// CHECK-LABEL: glow_fn.func @calls(%x) {
// CHECK:         glow_fn.call %{{.*}}(%x)
glow_fn.func @slope(%d, %y, %x) {
  glow_fn.return %d
}
glow_fn.func @declared(%x) attributes {gradient = @slope} {
  %one = glow_fn.constant 1.0 : f64
  glow_fn.return %one
}
glow_fn.func @calls(%x) {
  %f = glow_fn.ref @declared
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}

// Equal in one call only is not equal.
// CHECK-LABEL: glow_fn.func @differ(%a, %b) {
// CHECK-NEXT:    %s = glow_fn.prim sub(%a, %b)
// CHECK-LABEL: glow_fn.func @gives_twice(%x, %y) {
// CHECK:         %p = glow_fn.call %f(%x, %x)
// CHECK:         %q = glow_fn.call %f(%x, %y)
glow_fn.func @differ(%a, %b) {
  %s = glow_fn.prim sub(%a, %b)
  glow_fn.return %s
}
glow_fn.func @gives_twice(%x, %y) {
  %f = glow_fn.ref @differ
  %p = glow_fn.call %f(%x, %x)
  %q = glow_fn.call %f(%x, %y)
  %r = glow_fn.prim add(%p, %q)
  glow_fn.return %r
}

// Four values, of which a recursion swaps two and keeps equal ones equal: what differs stays apart.
// CHECK-LABEL: glow_fn.func @swap(%a, %b, %n) {
// CHECK:         %s = glow_fn.prim sub(%a, %b)
// CHECK-NEXT:    %t = glow_fn.prim mul(%s, %n)
// CHECK:         glow_fn.call %{{.*}}(%b, %a, %t)
glow_fn.func @swap(%a, %b, %n, %m) {
  %s = glow_fn.prim sub(%a, %b)
  %t = glow_fn.prim mul(%s, %m)
  %f = glow_fn.ref @swap
  %r = glow_fn.call %f(%b, %a, %t, %t)
  glow_fn.return %r
}
glow_fn.func @swaps(%x, %y, %z) {
  %f = glow_fn.ref @swap
  %r = glow_fn.call %f(%x, %y, %z, %z)
  glow_fn.return %r
}

// A call with too many arguments is a mistake of the user's, which is told with the numbers as they were.
// CHECK-LABEL: glow_fn.func @product(%a, %b) {
// CHECK-LABEL: glow_fn.func @square(%a, %b) {
// CHECK-LABEL: glow_fn.func @mistaken(%x) {
// CHECK:         glow_fn.call %{{.*}}(%x, %x, %x)
// CHECK:         glow_fn.call %{{.*}}(%x)
glow_fn.func @product(%a, %b) {
  %r = glow_fn.prim mul(%a, %b)
  glow_fn.return %r
}
glow_fn.func @square(%a, %b) {
  %r = glow_fn.prim mul(%b, %b)
  glow_fn.return %r
}
glow_fn.func @mistaken(%x) {
  %f = glow_fn.ref @product
  %r = glow_fn.call %f(%x, %x, %x)
  %g = glow_fn.ref @square
  %s = glow_fn.call %g(%x)
  %t = glow_fn.prim add(%r, %s)
  glow_fn.return %t
}

// A function that is called and is a value as well keeps all; a reference that nothing uses goes.
// CHECK-LABEL: glow_fn.func @value(%a, %b) {
// CHECK-LABEL: glow_fn.func @unused(%a) {
// CHECK-LABEL: glow_fn.func @holds(%x) {
// CHECK-NEXT:    %f = glow_fn.ref @value
// CHECK-NEXT:    %r = glow_fn.call %f(%x, %x)
glow_fn.func @value(%a, %b) {
  %one = glow_fn.constant 1 : i64
  glow_fn.return %one
}
glow_fn.func @unused(%a) {
  %one = glow_fn.constant 1 : i64
  glow_fn.return %one
}
glow_fn.func @holds(%x) {
  %u = glow_fn.ref @unused
  %f = glow_fn.ref @value
  %r = glow_fn.call %f(%x, %x)
  %t = glow_fn.tuple %f, %r
  glow_fn.return %t
}

// So does one that is handed to another function.
// CHECK-LABEL: glow_fn.func @handed(%a, %b) {
// CHECK-LABEL: glow_fn.func @takes(%f, %x) {
// CHECK-LABEL: glow_fn.func @hands(%x) {
// CHECK-NEXT:    %f = glow_fn.ref @handed
// CHECK-NEXT:    %r = glow_fn.call %f(%x, %x)
// CHECK-NEXT:    %g = glow_fn.ref @takes
// CHECK-NEXT:    %s = glow_fn.call %g(%f, %r)
glow_fn.func @handed(%a, %b) {
  %one = glow_fn.constant 1 : i64
  glow_fn.return %one
}
glow_fn.func @takes(%f, %x) {
  %r = glow_fn.call %f(%x, %x)
  glow_fn.return %r
}
glow_fn.func @hands(%x) {
  %f = glow_fn.ref @handed
  %r = glow_fn.call %f(%x, %x)
  %g = glow_fn.ref @takes
  %s = glow_fn.call %g(%f, %r)
  glow_fn.return %s
}

// What is called from outside gets what it is given there; so does a function with a declared gradient.
// CHECK-LABEL: glow_fn.func @outside(%x, %y) {
// CHECK-NEXT:    %s = glow_fn.prim sub(%x, %y)
glow_fn.func @outside(%x, %y) {
  %s = glow_fn.prim sub(%x, %y)
  %f = glow_fn.ref @outside
  %r = glow_fn.call %f(%s, %s)
  glow_fn.return %r
}
// CHECK-LABEL: glow_fn.func @declared_of_two(%a, %b) attributes {gradient = @slopes} {
// CHECK-NEXT:    %s = glow_fn.prim sub(%a, %b)
glow_fn.func @slopes(%d, %y, %a, %b) {
  %t = glow_fn.tuple %a, %b
  glow_fn.return %t
}
glow_fn.func @declared_of_two(%a, %b) attributes {gradient = @slopes} {
  %s = glow_fn.prim sub(%a, %b)
  glow_fn.return %s
}
glow_fn.func @calls_with_one(%x) {
  %f = glow_fn.ref @declared_of_two
  %r = glow_fn.call %f(%x, %x)
  glow_fn.return %r
}
