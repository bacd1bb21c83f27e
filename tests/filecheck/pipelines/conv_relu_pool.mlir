// The example of the Glow IR document: convolution, relu and pool, at every level.
// RUN: glow-opt %s | filecheck %s --check-prefix GRAPH
// RUN: glow-opt %s -p lower -t glow-ir | filecheck %s --check-prefix INSTR
// RUN: glow-opt %s -p lower,instr | filecheck %s --check-prefix PLANNED
// RUN: glow-opt %s -p cpu | filecheck %s --check-prefix CPU
// RUN: glow-opt %s -p cpu -t llvm-ir --mcpu haswell | filecheck %s --check-prefix LLVM
// RUN: glow-opt %s -p cpu -t asm --mcpu cortex-a72 | filecheck %s --check-prefix ASM

// GRAPH:       %conv = glow.conv %input, %filter, %bias
// GRAPH-NEXT:  %relu = glow.relu %conv
// GRAPH-NEXT:  %pool = glow.max_pool %relu

// INSTR:       declare {
// INSTR-NEXT:    %input = weight float<1 x 1 x 28 x 28>, mutable
// INSTR-NEXT:    %filter = weight float<16 x 1 x 5 x 5>, constant
// INSTR-NEXT:    %bias = weight float<16>, constant
// INSTR-NEXT:    %result = weight float<1 x 16 x 9 x 9>, mutable
// INSTR:       program {
// INSTR-NEXT:    %conv = alloc float<1 x 16 x 28 x 28>
// INSTR-NEXT:    conv [1 1 2 2 2 2 1 1] @out %conv, @in %input, @in %filter, @in %bias
// INSTR-NEXT:    %relu = alloc float<1 x 16 x 28 x 28>
// INSTR-NEXT:    relu @out %relu, @in %conv
// INSTR-NEXT:    dealloc @out %conv
// INSTR-NEXT:    %pool = alloc float<1 x 16 x 9 x 9>
// INSTR-NEXT:    max_pool [3 3 3 3 0 0 0 0 1 1] @out %pool, @in %relu
// INSTR-NEXT:    dealloc @out %relu
// INSTR-NEXT:    copy @out %result, @in %pool
// INSTR-NEXT:    dealloc @out %pool

// Relu in place, the pool where it is saved: one buffer is left.
// PLANNED:       attributes {arena = 50176 : i64}
// PLANNED:         [[CONV:%.*]] = glow_instr.alloc at 0 : memref<1x16x28x28xf32>
// PLANNED-NEXT:    glow_instr.conv @out [[CONV]]
// PLANNED-NEXT:    glow_instr.relu @out [[CONV]], @in [[CONV]]
// PLANNED-NEXT:    glow_instr.max_pool @out %{{.*}}, @in [[CONV]]
// PLANNED-NEXT:    glow_instr.dealloc @out [[CONV]]

// On the CPU relu is the body of the convolution, whose result is blocked by channels.
// CPU:           glow_cpu_instr.conv @out %{{.*}}
// CPU-NEXT:      ^bb0(%[[SUM:.*]]: tensor<f32>):
// CPU-NEXT:        glow.relu %[[SUM]]
// CPU:           glow_cpu_instr.pool
// CPU-NOT:       glow_instr.relu

// LLVM:          define void @glow_main(ptr %{{.*}}, ptr %{{.*}}, ptr %{{.*}}, i64 %{{.*}})
// LLVM:            call {{.*}}@glow_{{.*}}conv
// LLVM:            call {{.*}}@glow_pool
// LLVM:            ret void

// ASM:           glow_main:
// ASM:             bl{{.}}glow_
// ASM:             bl{{.}}glow_pool

glow.placeholder @input input : tensor<1x1x28x28xf32>
glow.constant @filter = dense<0.5> : tensor<16x1x5x5xf32>
glow.constant @bias = dense<0.1> : tensor<16xf32>
glow.placeholder @result output : tensor<1x16x9x9xf32>
glow.func @main {
  %input = glow.get @input : tensor<1x1x28x28xf32>
  %filter = glow.get @filter : tensor<16x1x5x5xf32>
  %bias = glow.get @bias : tensor<16xf32>
  %conv = glow.conv %input, %filter, %bias {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x1x28x28xf32>, tensor<16x1x5x5xf32>, tensor<16xf32>) -> tensor<1x16x28x28xf32>
  %relu = glow.relu %conv : (tensor<1x16x28x28xf32>) -> tensor<1x16x28x28xf32>
  %pool = glow.max_pool %relu {kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x16x28x28xf32>) -> tensor<1x16x9x9xf32>
  glow.save %pool to @result : tensor<1x16x9x9xf32>
}
