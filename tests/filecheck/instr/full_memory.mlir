// RUN: glow-opt %s -p glow-plan-memory --verify-diagnostics | filecheck %s
// expected-error@unknown {{memory 'scratch' of 48 bytes is full at glow_instr.relu: buffers of 128 bytes live there}}

// CHECK: use smaller tiles, or fewer buffers at a time
glow.placeholder @x state : tensor<8xf32>
glow_instr.func @full attributes {memories = {scratch = {size = 48 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8xf32>
} program {
  %a = glow_instr.alloc : memref<8xf32, "scratch">
  glow_instr.copy @out %a, @in %x : memref<8xf32, "scratch">, memref<8xf32>
  %b = glow_instr.alloc : memref<8xf32, "scratch">
  glow_instr.relu @out %b, @in %a : memref<8xf32, "scratch">, memref<8xf32, "scratch">
  glow_instr.copy @out %x, @in %b : memref<8xf32>, memref<8xf32, "scratch">
  glow_instr.dealloc @out %b : memref<8xf32, "scratch">
  glow_instr.dealloc @out %a : memref<8xf32, "scratch">
}
