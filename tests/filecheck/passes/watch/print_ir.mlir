// Programs are shown in the middle of a pipeline, whole or one function.
// RUN: glow-opt %s -p 'glow-simplify,glow-print-ir{label="simple" functions="ma*"},glow-irgen' -o %t.mlir 2>&1 | filecheck %s
// RUN: glow-opt %s -p 'glow-print-ir{locations=true}' -o %t.mlir 2>&1 | filecheck %s --check-prefix PLACES

// CHECK:      // ----- simple
// CHECK-NEXT: glow.func @main
// CHECK-NOT:  glow.neg
// CHECK-NOT:  @other

// PLACES:     // ----- glow-print-ir
// PLACES:     glow.func @other
// PLACES:     print_ir.mlir

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.neg %a : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %b to @y : tensor<4xf32>
}
glow.func @other {
}
