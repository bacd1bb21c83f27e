// RUN: glow-opt %s -p 'glow-tile{memory=scratch bytes=128}' | filecheck %s
// RUN: not glow-opt %s -p 'glow-tile{memory=scratch bytes=4}' 2>&1 | filecheck %s --check-prefix=SMALL
// RUN: not glow-opt %s -p 'glow-tile{memory=scratch bytes=0}' 2>&1 | filecheck %s --check-prefix=BYTES

glow.placeholder @x input : tensor<4x8xf32>
glow.placeholder @y output : tensor<4x8xf32>
glow.placeholder @b input : tensor<1x1x6x8xf32>
glow.placeholder @p output : tensor<1x1x6x8xf32>

// Parts of 8 elements by two buffers of 4 bytes are 64 bytes: two rows fit.
// CHECK-LABEL: glow_instr.func @main
// CHECK:         glow_instr.for [[I:%.*]] = 0 to 4 step 2 {
// CHECK:           [[A:%.*]] = glow_instr.alloc : memref<2x8xf32, "scratch">
// CHECK:           [[X:%.*]] = glow_instr.tensorview {{%.*}} offset 8 * [[I]] : memref<4x8xf32> to memref<2x8xf32>
// CHECK:           [[T:%.*]] = glow_instr.start_copy @out [[A]], @in [[X]]
// CHECK:           glow_instr.wait @after [[T]]
// CHECK:           glow_instr.relu @out [[B:%.*]], @in [[A]]
// CHECK:           glow_instr.tensorview {{%.*}} offset 8 * [[I]]
// CHECK:           glow_instr.start_copy @out {{%.*}}, @in [[B]]

// Tiles at borders have these as their own padding, the ones between are a loop.
// CHECK:         glow_instr.max_pool {{.*}}pads = array<i64: 1, 1, 0, 1>
// CHECK:         glow_instr.for [[J:%.*]] = 1 to 5 step 1 {
// CHECK:           glow_instr.tensorview {{%.*}} offset -8 + 8 * [[J]] : memref<1x1x6x8xf32> to memref<1x1x3x8xf32
// CHECK:           glow_instr.max_pool {{.*}}pads = array<i64: 0, 1, 0, 1>
// CHECK:         glow_instr.max_pool {{.*}}pads = array<i64: 0, 1, 1, 1>
glow_instr.func @main attributes {memories = {scratch = {size = 1024 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<4x8xf32>
  %y = glow_instr.weight @y mutable : memref<4x8xf32>
  %b = glow_instr.weight @b mutable : memref<1x1x6x8xf32>
  %p = glow_instr.weight @p mutable : memref<1x1x6x8xf32>
} program {
  glow_instr.relu @out %y, @in %x : memref<4x8xf32>, memref<4x8xf32>
  glow_instr.max_pool @out %p, @in %b {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : memref<1x1x6x8xf32>, memref<1x1x6x8xf32>
}

// SMALL: glow_instr.relu of memref<4x8xf32>: the smallest tile takes 8 bytes, and memory 'scratch' has 4
// BYTES: tiles take a positive number of bytes
