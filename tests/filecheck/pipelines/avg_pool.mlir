// The paper's figure 4: one declaration of an operator gives its node, its instruction with access modes
// and members, the translation between them, and the verifier.
// RUN: glow-opt %s -p glow-irgen --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s -p glow-irgen -t glow-ir --split-input-file --verify-diagnostics | filecheck %s --check-prefix IR

// CHECK:      glow_instr.avg_pool @out %{{.*}}, @in %{{.*}} {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>
// CHECK-SAME:   : memref<1x4x4x4xf32>, memref<1x4x8x8xf32>
// IR:         avg_pool [2 2 2 2{{.*}}] @out %{{.*}}, @in %x
glow.placeholder @x input : tensor<1x4x8x8xf32>
glow.placeholder @y output : tensor<1x4x4x4xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x4x8x8xf32>
  %y = glow.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  glow.save %y to @y : tensor<1x4x4x4xf32>
}

// -----

// expected-error@unknown {{glow.avg_pool: result type is tensor<1x4x5x5xf32>, operands give tensor<1x4x4x4xf32>}}
// CHECK:      error: {{.*}}the program is not valid: glow.avg_pool: result type is tensor<1x4x5x5xf32>, operands give tensor<1x4x4x4xf32>
// IR:         error: {{.*}}the program is not valid: glow.avg_pool
glow.placeholder @x input : tensor<1x4x8x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x4x8x8xf32>
  %y = glow.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x5x5xf32>
}
