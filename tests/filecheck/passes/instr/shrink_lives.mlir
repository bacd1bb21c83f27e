// RUN: glow-opt %s -p glow-shrink-lives | filecheck %s

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// Allocs sink to the first use, deallocs rise to behind the last one, views included.
// CHECK-LABEL: glow_instr.func @main
// CHECK:       program
// CHECK-NEXT:    [[A:%.*]] = glow_instr.alloc : memref<4xf32>
// CHECK-NEXT:    glow_instr.relu @out [[A]]
// CHECK-NEXT:    [[B:%.*]] = glow_instr.alloc : memref<4xf32>
// CHECK-NEXT:    glow_instr.neg @out [[B]], @in [[A]]
// CHECK-NEXT:    glow_instr.dealloc @out [[A]]
// CHECK-NEXT:    [[V:%.*]] = glow_instr.tensorview [[B]]
// CHECK-NEXT:    [[W:%.*]] = glow_instr.tensorview [[V]]
// CHECK-NEXT:    glow_instr.copy @out %{{.*}}, @in [[W]]
// CHECK-NEXT:    glow_instr.dealloc @out [[B]]
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  %b = glow_instr.alloc : memref<4xf32>
  glow_instr.relu @out %a, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.neg @out %b, @in %a : memref<4xf32>, memref<4xf32>
  %v = glow_instr.tensorview %b : memref<4xf32> to memref<2x2xf32>
  %w = glow_instr.tensorview %v : memref<2x2xf32> to memref<4xf32>
  glow_instr.copy @out %y, @in %w : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
}
