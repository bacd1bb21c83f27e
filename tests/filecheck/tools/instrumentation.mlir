// RUN: glow-opt %s -p glow-schedule,glow-cse,glow-dce --print-ir changed 2>&1 | filecheck %s --check-prefix CHANGED
// RUN: glow-opt %s -p glow-cse --print-ir before 2>&1 | filecheck %s --check-prefix BEFORE
// RUN: glow-opt %s -p glow-cse --print-ir after 2>&1 | filecheck %s --check-prefix AFTER
// RUN: glow-opt %s -p glow-cse,glow-dce,glow-irgen --statistics 2>&1 | filecheck %s --check-prefix STATISTICS
// RUN: glow-opt %s -p glow-cse,glow-dce --timing 2>&1 | filecheck %s --check-prefix TIMING
// RUN: glow-opt %s -p glow-cse,glow-irgen --bisect-limit 1 2>&1 | filecheck %s --check-prefix BISECT
// RUN: rm -rf %t && glow-opt %s -p glow-cse,glow-irgen --dump %t -o %t.mlir && cat %t/001-glow-cse.mlir %t/002-glow-irgen.mlir | filecheck %s --check-prefix DUMP
// RUN: glow-opt -p 'optimize,glow-schedule{by=order}' --show-pipeline | filecheck %s --check-prefix PIPELINE
// RUN: glow-opt --list-passes | filecheck %s --check-prefix LIST

// Passes that change nothing print nothing.
// CHANGED-NOT: after glow-schedule
// CHANGED:     // ----- after glow-cse
// CHANGED:       glow.func @main
// CHANGED-NOT: after glow-dce

// BEFORE:      // ----- before glow-cse
// BEFORE:        glow.neg
// BEFORE-NEXT:   glow.neg

// AFTER:       // ----- after glow-cse
// AFTER:         [[N:%.*]] = glow.neg
// AFTER-NEXT:    glow.add [[N]], [[N]]

// STATISTICS:  glow-cse: glow.neg -1
// STATISTICS:  glow-dce: no change
// STATISTICS:  glow-irgen: {{.*}}glow.func -1{{.*}}glow_instr.func +1

// TIMING:      total {{[0-9.]+}} ms
// TIMING:      {{[0-9.]+}} ms {{.*}} glow-cse
// TIMING:      {{[0-9.]+}} ms {{.*}} glow-dce

// BISECT:      bisect: stopped before pass 2, glow-irgen
// BISECT:      glow.func @main

// DUMP:        glow.func @main
// DUMP:        glow_instr.func @main

// PIPELINE:    glow-dce,glow-cse,{{.*}},glow-schedule{by="order"}

// LIST:        glow-cse {{ *}}Common-subexpression elimination
// LIST:        optimize {{ *}}glow-dce,glow-cse

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = glow.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %y to @y : tensor<4xf32>
}
