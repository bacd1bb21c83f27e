// RUN: glow-opt %s -p glow-unroll | filecheck %s --check-prefix WHOLE
// RUN: glow-opt %s -p "glow-unroll{by=2}" | filecheck %s --check-prefix TWO
// RUN: glow-opt %s -p "glow-unroll{by=3}" | filecheck %s --check-prefix THREE

glow.placeholder @x input : tensor<8x64xf32>
glow.placeholder @y output : tensor<8x64xf32>

// Offsets become numbers; the token of a turn is the one that the next turn waits for.
// WHOLE-LABEL: glow_instr.func @main
// WHOLE:         [[A:%.*]] = glow_instr.start_copy
// WHOLE-NOT:     glow_instr.for
// WHOLE:         glow_instr.wait @after [[A]]
// WHOLE:         glow_instr.tensorview {{%.*}} offset 64 :
// WHOLE:         [[B:%.*]] = glow_instr.start_copy
// WHOLE:         glow_instr.wait @after [[B]]

// Two turns in one; a turn whose number is not a multiple of `by` is left alone.
// TWO-LABEL:   glow_instr.func @main
// TWO:           glow_instr.for [[I:%.*]] = 0 to 4 step 2 carry([[C:%.*]] = {{%.*}}) {
// TWO:             glow_instr.wait @after [[C]]
// TWO:             glow_instr.tensorview {{%.*}} offset 64 + 64 * [[I]] :
// TWO:             [[N:%.*]] = glow_instr.start_copy
// TWO:             glow_instr.wait @after [[N]]
// TWO:             glow_instr.tensorview {{%.*}} offset 128 + 64 * [[I]] :
// TWO:             [[L:%.*]] = glow_instr.start_copy
// TWO:             glow_instr.yield [[L]]

// THREE-LABEL: glow_instr.func @main
// THREE:         glow_instr.for {{%.*}} = 0 to 4 step 1
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<8x64xf32>
  %y = glow_instr.weight @y mutable : memref<8x64xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  %x0 = glow_instr.tensorview %x : memref<8x64xf32> to memref<64xf32>
  %t0 = glow_instr.start_copy @out %a, @in %x0 : memref<64xf32>, memref<64xf32>
  %last = glow_instr.for %i = 0 to 4 step 1 carry(%t = %t0) {
    glow_instr.wait @after %t : !glow_instr.token
    %y0 = glow_instr.tensorview %y offset 64 * %i : memref<8x64xf32> to memref<64xf32>
    glow_instr.relu @out %y0, @in %a : memref<64xf32>, memref<64xf32>
    %x1 = glow_instr.tensorview %x offset 64 + 64 * %i : memref<8x64xf32> to memref<64xf32>
    %n = glow_instr.start_copy @out %a, @in %x1 : memref<64xf32>, memref<64xf32>
    glow_instr.yield %n
  }
  glow_instr.wait @after %last : !glow_instr.token
  glow_instr.dealloc @out %a : memref<64xf32>
}
