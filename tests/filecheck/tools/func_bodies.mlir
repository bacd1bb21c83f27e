// Passes on nodes work on functions of MLIR's func dialect, too; plain xdsl-opt runs the CPU's passes.
// RUN: glow-opt %s -p glow-cse,glow-simplify,glow-dce | filecheck %s
// RUN: glow-opt %s -p 'glow-decompose{ops=softsign}' | filecheck %s --check-prefix APART
// RUN: glow-opt %s -p glow-schedule | filecheck %s --check-prefix ORDER
// RUN: xdsl-opt %s -p glow-cpu-stack | filecheck %s --check-prefix XDSL
// RUN: not glow-opt %s -p lower,glow-irgen 2>&1 | filecheck %s --check-prefix NONE

// CHECK:      func.func @f
// CHECK-NEXT:   glow.sub %x, %x
// CHECK-NEXT:   func.return

// APART:      func.func @f
// APART-COUNT-3: glow.neg

// ORDER:      func.func @f
// ORDER:        %y = glow.add
// ORDER-NEXT:   func.return %y

// XDSL:       func.func @f
// XDSL-NEXT:    [[Y:%.*]] = glow_cpu.stack %x
// XDSL:         func.return [[Y]]

// NONE: error: pass glow-irgen works on graphs (glow.func); the program there is functions of MLIR (func.func)

func.func @f(%x : tensor<4xf32>) -> tensor<4xf32> {
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %c = glow.neg %b : (tensor<4xf32>) -> tensor<4xf32>
  %y = glow.add %a, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
