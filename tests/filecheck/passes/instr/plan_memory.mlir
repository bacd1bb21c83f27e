// RUN: glow-opt %s -p glow-plan-memory | filecheck %s

glow.placeholder @x input : tensor<16xf32>
glow.placeholder @y output : tensor<16xf32>

// Lives that do not meet share a place; the arena is as large as what is live at once.
// CHECK-LABEL: glow_instr.func @main attributes {arena = 128 : i64}
// CHECK:         glow_instr.alloc at [[FIRST:[0-9]+]] : memref<16xf32>
// CHECK:         glow_instr.alloc at [[OTHER:[0-9]+]] : memref<16xf32>
// CHECK:         glow_instr.alloc at [[FIRST]] : memref<16xf32>
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<16xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<16xf32>
  glow_instr.relu @out %a, @in %x : memref<16xf32>, memref<16xf32>
  %b = glow_instr.alloc : memref<16xf32>
  glow_instr.neg @out %b, @in %a : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %a : memref<16xf32>
  %c = glow_instr.alloc : memref<16xf32>
  glow_instr.abs @out %c, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %b : memref<16xf32>
  glow_instr.copy @out %y, @in %c : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %c : memref<16xf32>
}

// Places are multiples of 64 bytes.
// CHECK-LABEL: glow_instr.func @aligned attributes {arena = {{[0-9]+}} : i64}
// CHECK-DAG:     glow_instr.alloc at 0 : memref<3xf32>
// CHECK-DAG:     glow_instr.alloc at 64 : memref<3xf32>
glow.placeholder @p input : tensor<3xf32>
glow.placeholder @q output : tensor<3xf32>
glow_instr.func @aligned declare {
  %x = glow_instr.weight @p mutable : memref<3xf32>
  %y = glow_instr.weight @q mutable : memref<3xf32>
} program {
  %a = glow_instr.alloc : memref<3xf32>
  %b = glow_instr.alloc : memref<3xf32>
  glow_instr.relu @out %a, @in %x : memref<3xf32>, memref<3xf32>
  glow_instr.neg @out %b, @in %a : memref<3xf32>, memref<3xf32>
  glow_instr.add @out %y, @in %a, @in %b : memref<3xf32>, memref<3xf32>, memref<3xf32>
  glow_instr.dealloc @out %a : memref<3xf32>
  glow_instr.dealloc @out %b : memref<3xf32>
}

// Each memory is planned by itself, with its own alignment; the arena is the main one alone.
// CHECK-LABEL: glow_instr.func @spaces attributes {arena = 64 : i64, memories = {scratch = {
// CHECK-DAG:     glow_instr.alloc at 0 : memref<16xf32>
// CHECK-DAG:     glow_instr.alloc at 0 : memref<5xf32, "scratch">
// CHECK-DAG:     glow_instr.alloc at 32 : memref<4xf32, "scratch">
glow_instr.func @spaces attributes {memories = {scratch = {size = 48 : i64, alignment = 16 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<16xf32>
  %b = glow_instr.alloc : memref<5xf32, "scratch">
  %c = glow_instr.alloc : memref<4xf32, "scratch">
  glow_instr.dealloc @out %c : memref<4xf32, "scratch">
  glow_instr.dealloc @out %b : memref<5xf32, "scratch">
  glow_instr.dealloc @out %a : memref<16xf32>
}
