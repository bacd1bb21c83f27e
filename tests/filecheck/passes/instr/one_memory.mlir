// RUN: glow-opt %s -p glow-one-memory,glow-plan-memory | filecheck %s

glow.placeholder @x state : tensor<16xf32>

// Buffers of a device's memory move to the arena; those of both are apart there.
// CHECK-LABEL: glow_instr.func @main attributes {arena = 128 : i64} declare {
// CHECK-DAG:     glow_instr.alloc at 0 : memref<16xf32>
// CHECK-DAG:     glow_instr.alloc at 64 : memref<16xf32>
// CHECK:         glow_instr.copy {{.*}} : memref<16xf32>, memref<16xf32>
glow_instr.func @main attributes {memories = {near = {size = 64 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc at 0 : memref<16xf32>
  %b = glow_instr.alloc at 0 : memref<16xf32, "near">
  glow_instr.copy @out %b, @in %x : memref<16xf32, "near">, memref<16xf32>
  glow_instr.copy @out %a, @in %b : memref<16xf32>, memref<16xf32, "near">
  glow_instr.copy @out %x, @in %a : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %a : memref<16xf32>
  glow_instr.dealloc @out %b : memref<16xf32, "near">
}
