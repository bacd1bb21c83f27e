"""Programs with loops, strided views, a memory and tokens."""

from __future__ import annotations

#: relu tile by tile, through a small memory.
TILES = """
glow.placeholder @x input : tensor<64x64xf32>
glow.placeholder @y output : tensor<64x64xf32>
glow_instr.func @main attributes {memories = {scratch = {size = 2048 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<64x64xf32>
  %y = glow_instr.weight @y mutable : memref<64x64xf32>
} program {
  glow_instr.for %i = 0 to 64 step 16 {
    glow_instr.for %j = 0 to 64 step 16 {
      %a = glow_instr.alloc : $TILE
      %v = glow_instr.tensorview %x offset 64 * %i + 1 * %j : memref<64x64xf32> to $PART
      %w = glow_instr.tensorview %y offset 64 * %i + 1 * %j : memref<64x64xf32> to $PART
      %t = glow_instr.start_copy @out %a, @in %v : $TILE, $PART
      glow_instr.wait @after %t : !glow_instr.token
      %b = glow_instr.alloc : $TILE
      glow_instr.relu @out %b, @in %a : $TILE, $TILE
      %u = glow_instr.start_copy @out %w, @in %b : $PART, $TILE
      glow_instr.wait @after %u : !glow_instr.token
      glow_instr.dealloc @out %a : $TILE
      glow_instr.dealloc @out %b : $TILE
    }
  }
}
""".replace("$PART", "memref<16x16xf32, strided<[64, 1]>>").replace("$TILE", 'memref<16x16xf32, "scratch">')

#: relu row by row, each loaded while the one before is computed.
ROWS = """
glow.placeholder @x input : tensor<8x64xf32>
glow.placeholder @y output : tensor<8x64xf32>
glow_instr.func @main attributes {memories = {scratch = {size = 2048 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x64xf32>
  %y = glow_instr.weight @y mutable : memref<8x64xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32, "scratch">
  %b = glow_instr.alloc : memref<64xf32, "scratch">
  %x0 = glow_instr.tensorview %x : memref<8x64xf32> to memref<64xf32>
  %t0 = glow_instr.start_copy @out %a, @in %x0 : memref<64xf32, "scratch">, memref<64xf32>
  %last = glow_instr.for %i = 0 to 6 step 2 carry(%t = %t0) {
    %x1 = glow_instr.tensorview %x offset 64 + 64 * %i : memref<8x64xf32> to memref<64xf32>
    %u = glow_instr.start_copy @out %b, @in %x1 : memref<64xf32, "scratch">, memref<64xf32>
    glow_instr.wait @after %t : !glow_instr.token
    %y0 = glow_instr.tensorview %y offset 64 * %i : memref<8x64xf32> to memref<64xf32>
    glow_instr.relu @out %y0, @in %a : memref<64xf32>, memref<64xf32, "scratch">
    %x2 = glow_instr.tensorview %x offset 128 + 64 * %i : memref<8x64xf32> to memref<64xf32>
    %n = glow_instr.start_copy @out %a, @in %x2 : memref<64xf32, "scratch">, memref<64xf32>
    glow_instr.wait @after %u : !glow_instr.token
    %y1 = glow_instr.tensorview %y offset 64 + 64 * %i : memref<8x64xf32> to memref<64xf32>
    glow_instr.relu @out %y1, @in %b : memref<64xf32>, memref<64xf32, "scratch">
    glow_instr.yield %n
  }
  %x7 = glow_instr.tensorview %x offset 448 : memref<8x64xf32> to memref<64xf32>
  %l = glow_instr.start_copy @out %b, @in %x7 : memref<64xf32, "scratch">, memref<64xf32>
  glow_instr.wait @after %last, @after %l : !glow_instr.token, !glow_instr.token
  %y6 = glow_instr.tensorview %y offset 384 : memref<8x64xf32> to memref<64xf32>
  glow_instr.relu @out %y6, @in %a : memref<64xf32>, memref<64xf32, "scratch">
  %y7 = glow_instr.tensorview %y offset 448 : memref<8x64xf32> to memref<64xf32>
  glow_instr.relu @out %y7, @in %b : memref<64xf32>, memref<64xf32, "scratch">
  glow_instr.dealloc @out %a : memref<64xf32, "scratch">
  glow_instr.dealloc @out %b : memref<64xf32, "scratch">
}
"""
