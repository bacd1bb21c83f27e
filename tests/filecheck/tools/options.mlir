// What passes did, as differences; prints of some passes and functions; passes on one function; analyses; dialects;
// xDSL's passes; functions of MLIR's func dialect.
// RUN: glow-opt %s -p glow-cse,glow-dce,glow-simplify --print-ir diff -o %t.mlir 2>&1 | filecheck %s --check-prefix DIFF
// RUN: glow-opt %s -p glow-cse,glow-simplify --print-ir diff --print-passes 'glow-s*' -o %t.mlir 2>&1 | filecheck %s --check-prefix ONE
// RUN: glow-opt %s -p glow-cse --print-ir after --print-functions other -o %t.mlir 2>&1 | filecheck %s --check-prefix FUNCTION
// RUN: glow-opt %s -p glow-simplify --functions main | filecheck %s --check-prefix MAIN
// RUN: not glow-opt %s -p glow-simplify --functions mian 2>&1 | filecheck %s --check-prefix NONE
// RUN: glow-opt %s -p glow-irgen --functions other | filecheck %s --check-prefix MIXED
// RUN: glow-opt %s -p glow-cse --analyze readers | filecheck %s --check-prefix READERS
// RUN: glow-opt %s --analyze liveness | filecheck %s --check-prefix LIVE
// RUN: glow-opt %s -p lower,instr --analyze dependencies | filecheck %s --check-prefix AFTER
// RUN: glow-opt %s -p lower --analyze cost | filecheck %s --check-prefix COST
// RUN: not glow-opt %s --analyze lifeness 2>&1 | filecheck %s --check-prefix WHICH
// RUN: glow-opt --show-dialects | filecheck %s --check-prefix DIALECTS
// RUN: glow-opt %s -p canonicalize,glow-cse,cse | filecheck %s --check-prefix XDSL
// RUN: glow-opt %s -p cpu -t asm --timing -o %t.s 2>&1 | filecheck %s --check-prefix TIMING

// DIFF:      --- before glow-cse
// DIFF:      -    %b = glow.neg %x
// DIFF:      -    %y = glow.add %a, %b
// DIFF:      +    %y = glow.add %a, %a
// DIFF-NOT:  glow-dce
// DIFF:      --- before glow-simplify

// ONE-NOT:   glow-cse
// ONE:       --- before glow-simplify

// FUNCTION:      // ----- after glow-cse
// FUNCTION-NEXT: glow.func @other
// FUNCTION-NOT:  glow.func @main

// MAIN:      glow.func @main
// MAIN:        glow.sub
// MAIN:      glow.func @other
// MAIN-COUNT-2: glow.neg

// NONE: error: there is no function 'mian'; there are: main, other

// MIXED:     glow.func @main
// MIXED:     glow_instr.func @other

// READERS:   readers of @main
// READERS:     %x of glow.get: glow.neg ({{.*}}options.mlir:{{[0-9]+}}:3)
// READERS:     %a of glow.neg: glow.add

// LIVE:      liveness of @main
// LIVE:        %a of glow.neg: 2 to 4, 16 bytes
// LIVE:        most alive: 48 bytes at 4, glow.add

// AFTER:     dependencies of @other
// AFTER:       1: glow_instr.exp {{.*}}: after 0 (read after write)

// COST:      cost of @main
// COST:        glow_instr.neg {{.*}}: 4 operations, 32 bytes

// WHICH: error: there is no analysis 'lifeness'; there are: readers, dependencies, liveness, cost

// DIALECTS:  glow {{.*}}conv{{.*}}relu
// DIALECTS:  glow_cpu {{ *}}{{.*}}stack

// XDSL:      glow.func @main
// XDSL-COUNT-1: glow.neg
// XDSL:      glow.add

// TIMING:      total {{[0-9.]+}} ms
// TIMING:      import
// TIMING:      verify
// TIMING:      passes
// TIMING:        glow-cse
// TIMING:        verification
// TIMING:        rest
// TIMING:      emission of asm
// TIMING:        LLVM
// TIMING:      rest

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.placeholder @z output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = glow.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %y to @y : tensor<4xf32>
}
glow.func @other {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %c = glow.neg %b : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %c to @z : tensor<4xf32>
}
