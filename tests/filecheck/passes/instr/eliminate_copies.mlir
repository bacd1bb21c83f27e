// RUN: glow-opt %s -p glow-eliminate-copies | filecheck %s

glow.placeholder @x input : tensor<2x2xf32>
glow.placeholder @y output : tensor<2x2xf32>
glow.placeholder @flat output : tensor<4xf32>

// A result is computed where it is saved.
// CHECK-LABEL: glow_instr.func @saved
// CHECK:         [[X:%.*]] = glow_instr.weight @x
// CHECK:         [[Y:%.*]] = glow_instr.weight @y
// CHECK:         program
// CHECK-NEXT:    glow_instr.relu @out [[Y]], @in [[X]]
// CHECK-NEXT:  }
glow_instr.func @saved declare {
  %x = glow_instr.weight @x mutable : memref<2x2xf32>
  %y = glow_instr.weight @y mutable : memref<2x2xf32>
} program {
  %a = glow_instr.alloc : memref<2x2xf32>
  glow_instr.relu @out %a, @in %x : memref<2x2xf32>, memref<2x2xf32>
  glow_instr.copy @out %y, @in %a : memref<2x2xf32>, memref<2x2xf32>
  glow_instr.dealloc @out %a : memref<2x2xf32>
}

// Through a view: the alloc becomes a view of the destination.
// CHECK-LABEL: glow_instr.func @viewed
// CHECK:         [[F:%.*]] = glow_instr.weight @flat
// CHECK:         [[V:%.*]] = glow_instr.tensorview [[F]]
// CHECK-NEXT:    glow_instr.relu @out [[V]]
// CHECK-NOT:     copy
glow_instr.func @viewed declare {
  %x = glow_instr.weight @x mutable : memref<2x2xf32>
  %y = glow_instr.weight @flat mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<2x2xf32>
  glow_instr.relu @out %a, @in %x : memref<2x2xf32>, memref<2x2xf32>
  %v = glow_instr.tensorview %a : memref<2x2xf32> to memref<4xf32>
  glow_instr.copy @out %y, @in %v : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<2x2xf32>
}

// Not where the source is written again after the copy.
// CHECK-LABEL: glow_instr.func @written_again
// CHECK:         glow_instr.copy
glow_instr.func @written_again declare {
  %x = glow_instr.weight @x mutable : memref<2x2xf32>
  %y = glow_instr.weight @y mutable : memref<2x2xf32>
  %z = glow_instr.weight @flat mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<2x2xf32>
  glow_instr.relu @out %a, @in %x : memref<2x2xf32>, memref<2x2xf32>
  glow_instr.copy @out %y, @in %a : memref<2x2xf32>, memref<2x2xf32>
  glow_instr.neg @out %a, @in %x : memref<2x2xf32>, memref<2x2xf32>
  %v = glow_instr.tensorview %a : memref<2x2xf32> to memref<4xf32>
  glow_instr.abs @out %z, @in %v : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<2x2xf32>
}

// Not where the destination is read while the source is already live.
// CHECK-LABEL: glow_instr.func @destination_read
// CHECK:         glow_instr.copy
glow_instr.func @destination_read declare {
  %y = glow_instr.weight @y mutable : memref<2x2xf32>
} program {
  %a = glow_instr.alloc : memref<2x2xf32>
  glow_instr.relu @out %a, @in %y : memref<2x2xf32>, memref<2x2xf32>
  %b = glow_instr.alloc : memref<2x2xf32>
  glow_instr.add @out %b, @in %a, @in %y : memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>
  glow_instr.copy @out %y, @in %a : memref<2x2xf32>, memref<2x2xf32>
  glow_instr.dealloc @out %a : memref<2x2xf32>
  glow_instr.dealloc @out %b : memref<2x2xf32>
}

// A state updated in place: the destination is read by the very instruction that may write over it.
// CHECK-LABEL: glow_instr.func @updated
// CHECK:         [[Y:%.*]] = glow_instr.weight @y
// CHECK:         glow_instr.sub @out [[Y]], @in [[Y]], @in
// CHECK-NOT:     copy
glow_instr.func @updated declare {
  %x = glow_instr.weight @x mutable : memref<2x2xf32>
  %y = glow_instr.weight @y mutable : memref<2x2xf32>
} program {
  %b = glow_instr.alloc : memref<2x2xf32>
  glow_instr.sub @out %b, @in %y, @in %x : memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>
  glow_instr.copy @out %y, @in %b : memref<2x2xf32>, memref<2x2xf32>
  glow_instr.dealloc @out %b : memref<2x2xf32>
}
