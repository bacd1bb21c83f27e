// RUN: glow-opt %s -p glow-lift-closures,glow-simplify-functions --save-graphs %t --save-graphs-level 2 > %t.out
// RUN: cat %t/00_input.ir | filecheck %s
// RUN: cat %t/01_glow-lift-closures.ir | filecheck %s --check-prefix LIFTED
// RUN: cat %t/02_result.dot | filecheck %s --check-prefix DOT
// RUN: glow-opt %s -p glow-lift-closures --save-graphs %t.3 --save-graphs-level 3 > %t.out
// RUN: cat %t.3/01_before_glow-lift-closures.ir | filecheck %s
// RUN: cat %t.3/02_after_glow-lift-closures.svg | filecheck %s --check-prefix SVG

// Each node with its inputs, types and source line.
// CHECK: subgraph @outer(%0_a : f64, %1_b) {
// CHECK:   %[[F:.*]] = lambda @inner(%[[C:.*]]_c) {
// CHECK:     %[[S:.*]] = add(%0_a, %{{.*}}) : (f64, ?) -> f64  # net.py:3
// CHECK: return

// LIFTED: subgraph @outer(%0_a : f64, %1_b) {
// LIFTED: ref() {symbol: @inner}
// LIFTED: subgraph @inner(

// DOT: digraph functions {
// DOT: label="@outer";
// DOT: [label="add"];

// SVG: <svg xmlns=
// SVG: @outer
// SVG: @inner
// SVG: </svg>
glow_fn.func @outer(%a : f64, %b) {
  %f = glow_fn.lambda @inner(%c) {
    %s = "glow_fn.prim"(%a, %c) <{prim = "add"}> {line = "net.py:3"} : (f64, !glow_fn.any) -> f64
    glow_fn.return %s
  }
  %r = glow_fn.call %f(%b)
  glow_fn.return %r
}
