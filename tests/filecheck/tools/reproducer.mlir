// A failing pass leaves a file that repeats the failure: the program before it, and the passes left.
// RUN: not glow-opt %s -p glow-cse,glow-irgen,glow-plan-memory --reproducer %t.mlir 2>&1 | filecheck %s --check-prefix MESSAGE
// RUN: filecheck %s --check-prefix FILE < %t.mlir
// RUN: not glow-opt %t.mlir -p glow-irgen,glow-plan-memory 2>&1 | filecheck %s --check-prefix AGAIN
// RUN: not glow-opt %s -p glow-cse,glow-irgen --print-ir failure 2>&1 | filecheck %s --check-prefix PRINTED

// MESSAGE:      reproducer written to
// MESSAGE:      error: glow-irgen: glow.{{.*}} has no instruction; decompose it first

// FILE:         // R{{UN}}: glow-opt {{.*}} -p 'glow-irgen,glow-plan-memory'
// FILE:         glow.func @main

// AGAIN:        error: glow-irgen: glow.{{.*}} has no instruction; decompose it first

// PRINTED:      // ----- before failing glow-irgen
// PRINTED:        glow.func @main
// PRINTED:      error: glow-irgen

glow.placeholder @x input : tensor<4x5xf32>
glow.placeholder @labels input : tensor<4xi64>
glow.placeholder @y output : tensor<f32>
glow.func @main {
  %x = glow.get @x : tensor<4x5xf32>
  %l = glow.get @labels : tensor<4xi64>
  %y = glow.cross_entropy %x, %l : (tensor<4x5xf32>, tensor<4xi64>) -> tensor<f32>
  glow.save %y to @y : tensor<f32>
}
