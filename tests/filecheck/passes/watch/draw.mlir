// Pictures are drawn in the middle of a pipeline.
// RUN: glow-opt %s -p 'glow-draw{file="%t.a.dot"},glow-simplify,glow-draw{file="%t.b.dot"}' -o %t.mlir && cat %t.a.dot %t.b.dot | filecheck %s
// RUN: not glow-opt %s -p 'glow-draw{file="net.png"}' 2>&1 | filecheck %s --check-prefix ERROR

// CHECK:      digraph glow
// CHECK:      neg
// CHECK:      digraph glow
// CHECK-NOT:  neg
// CHECK:      save

// ERROR: error: pass glow-draw: file=net.png: pictures are called NAME.dot or NAME.svg

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.neg %a : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %b to @y : tensor<4xf32>
}
