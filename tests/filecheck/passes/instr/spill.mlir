// RUN: glow-opt %s -p glow-spill,glow-plan-memory --split-input-file --verify-diagnostics | filecheck %s

// What is needed last is stored where the memory is full, and loaded before it is needed; views of it, too.
// CHECK-LABEL: glow_instr.func @main
// CHECK:      %[[A:.*]] = glow_instr.alloc at 0 : memref<8xf32, "scratch">
// CHECK:      glow_instr.copy @out %[[A]], @in %x
// CHECK:      %[[M:.*]] = glow_instr.alloc at 0 : memref<8xf32>
// CHECK-NEXT: %[[S:.*]] = glow_instr.start_copy @out %[[M]], @in %[[A]]
// CHECK-NEXT: glow_instr.wait @after %[[S]]
// CHECK-NEXT: glow_instr.dealloc @out %[[A]]
// CHECK:      glow_instr.relu
// CHECK:      %[[B:.*]] = glow_instr.alloc at {{[0-9]+}} : memref<8xf32, "scratch">
// CHECK-NEXT: %[[L:.*]] = glow_instr.start_copy @out %[[B]], @in %[[M]]
// CHECK-NEXT: glow_instr.wait @after %[[L]]
// CHECK-NEXT: glow_instr.dealloc @out %[[M]]
// CHECK-NEXT: %[[V:.*]] = glow_instr.tensorview %[[B]]
// CHECK-NEXT: glow_instr.add @out %y, @in %{{.*}}, @in %[[V]]
glow.placeholder @x input : tensor<8xf32>
glow.placeholder @y output : tensor<2x4xf32>
glow_instr.func @main attributes {memories = {scratch = {size = 128 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8xf32>
  %y = glow_instr.weight @y mutable : memref<2x4xf32>
} program {
  %a = glow_instr.alloc : memref<8xf32, "scratch">
  %v = glow_instr.tensorview %a : memref<8xf32, "scratch"> to memref<2x4xf32, "scratch">
  glow_instr.copy @out %a, @in %x : memref<8xf32, "scratch">, memref<8xf32>
  %b = glow_instr.alloc : memref<8xf32, "scratch">
  glow_instr.tanh @out %b, @in %x : memref<8xf32, "scratch">, memref<8xf32>
  %c = glow_instr.alloc : memref<8xf32, "scratch">
  glow_instr.relu @out %c, @in %b : memref<8xf32, "scratch">, memref<8xf32, "scratch">
  glow_instr.dealloc @out %b : memref<8xf32, "scratch">
  %w = glow_instr.tensorview %c : memref<8xf32, "scratch"> to memref<2x4xf32, "scratch">
  glow_instr.add @out %y, @in %w, @in %v : memref<2x4xf32>, memref<2x4xf32, "scratch">, memref<2x4xf32, "scratch">
  glow_instr.dealloc @out %c : memref<8xf32, "scratch">
  glow_instr.dealloc @out %a : memref<8xf32, "scratch">
}

// -----

// Buffers that one instruction uses have to be there at once, even after those that wait were spilled.
// expected-error@unknown {{memory 'scratch' of 48 bytes is full at glow_instr.relu}}
glow.placeholder @x state : tensor<8xf32>
glow_instr.func @full attributes {memories = {scratch = {size = 48 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8xf32>
} program {
  %a = glow_instr.alloc : memref<8xf32, "scratch">
  glow_instr.splat @out %a {value = 1.0 : f64} : memref<8xf32, "scratch">
  %b = glow_instr.alloc : memref<8xf32, "scratch">
  glow_instr.relu @out %b, @in %a : memref<8xf32, "scratch">, memref<8xf32, "scratch">
  glow_instr.copy @out %x, @in %b : memref<8xf32>, memref<8xf32, "scratch">
  glow_instr.dealloc @out %b : memref<8xf32, "scratch">
  glow_instr.dealloc @out %a : memref<8xf32, "scratch">
}
