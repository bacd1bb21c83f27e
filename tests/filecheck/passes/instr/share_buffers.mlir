// RUN: glow-opt %s -p glow-share-buffers | filecheck %s

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// A result takes the buffer of an operand that dies there.
// CHECK-LABEL: glow_instr.func @dies
// CHECK:         [[A:%.*]] = glow_instr.alloc
// CHECK-NEXT:    glow_instr.neg @out [[A]]
// CHECK-NEXT:    glow_instr.relu @out [[A]], @in [[A]]
// CHECK-NEXT:    glow_instr.copy @out %{{.*}}, @in [[A]]
// CHECK-NEXT:    glow_instr.dealloc @out [[A]]
glow_instr.func @dies declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.neg @out %a, @in %x : memref<4xf32>, memref<4xf32>
  %b = glow_instr.alloc : memref<4xf32>
  glow_instr.relu @out %b, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
  glow_instr.copy @out %y, @in %b : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
}

// Not where the operand is read later.
// CHECK-LABEL: glow_instr.func @read_later
// CHECK:         glow_instr.relu @out [[B:%.*]], @in [[A:%.*]] :
// CHECK-NEXT:    glow_instr.add @out %{{.*}}, @in [[A]], @in [[B]]
glow_instr.func @read_later declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.neg @out %a, @in %x : memref<4xf32>, memref<4xf32>
  %b = glow_instr.alloc : memref<4xf32>
  glow_instr.relu @out %b, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.add @out %y, @in %a, @in %b : memref<4xf32>, memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
}

// Never over an input of the program.
// CHECK-LABEL: glow_instr.func @input_kept
// CHECK:         [[X:%.*]] = glow_instr.weight @x
// CHECK:         [[B:%.*]] = glow_instr.alloc
// CHECK-NEXT:    glow_instr.relu @out [[B]], @in [[X]]
glow_instr.func @input_kept declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %b = glow_instr.alloc : memref<4xf32>
  glow_instr.relu @out %b, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.neg @out %y, @in %b : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
}

// A view that nothing uses goes: it would stand behind the buffer's end.
// CHECK-LABEL: glow_instr.func @unused_views
// CHECK:         glow_instr.dealloc
// CHECK-NOT:     glow_instr.tensorview
glow_instr.func @unused_views declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.neg @out %a, @in %x : memref<4xf32>, memref<4xf32>
  %b = glow_instr.alloc : memref<4xf32>
  glow_instr.relu @out %b, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.copy @out %y, @in %b : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
  %v = glow_instr.tensorview %a : memref<4xf32> to memref<2x2xf32>
  %w = glow_instr.tensorview %v : memref<2x2xf32> to memref<4x1xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}
