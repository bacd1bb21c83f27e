// RUN: glow-opt %s -p glow-dead-stores | filecheck %s

// A result that nobody reads goes, with its alloc; so does a weight that nobody uses.
// CHECK-LABEL: glow_instr.func @unread
// CHECK-NOT:     glow_instr.neg
// CHECK-NOT:     alloc
// CHECK-NOT:     weight @unused
// CHECK:         glow_instr.relu @out %{{.*}}, @in %{{.*}}
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @unused input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow_instr.func @unread declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %u = glow_instr.weight @unused mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.neg @out %a, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.relu @out %y, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}

// What is overwritten before it is read goes; a store that is read between stays.
// CHECK-LABEL: glow_instr.func @overwritten
// CHECK:         [[A:%.*]] = glow_instr.alloc
// CHECK-NEXT:    glow_instr.relu @out [[A]]
// CHECK-NEXT:    glow_instr.copy
// CHECK-NEXT:    glow_instr.neg @out [[A]]
// CHECK-NEXT:    glow_instr.copy
glow_instr.func @overwritten declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.abs @out %a, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.relu @out %a, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.copy @out %y, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.neg @out %a, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.copy @out %y, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}
