// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Started before the loop, waited for in each turn.
// expected-error@unknown {{glow_instr.start_copy: the token is waited for in a loop, in each iteration; carry it into the loop, or wait before}}
// CHECK: glow_instr.start_copy: the token is waited for in a loop, in each iteration; carry it into the loop, or wait before
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @waited_in_turns attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.for %i = 0 to 8 step 1 {
    glow_instr.wait @after %t : !glow_instr.token
  }
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// Started in each turn, waited for after the last.
// expected-error@unknown {{glow_instr.start_copy: nothing waits for the token; each token must be waited for once}}
// CHECK: glow_instr.start_copy: nothing waits for the token; each token must be waited for once
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @started_in_turns attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  glow_instr.for %i = 0 to 8 step 1 {
    %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  }
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A carried token that a turn does not take.
// expected-error@unknown {{glow_instr.for: nothing waits for the token; each token must be waited for once}}
// CHECK: glow_instr.for: nothing waits for the token; each token must be waited for once
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @dropped attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %l = glow_instr.for %i = 0 to 8 step 1 carry(%c = %t) {
    %n = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
    glow_instr.yield %n
  }
  glow_instr.wait @after %l : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A turn hands on fewer tokens than the loop carries.
// expected-error@unknown {{glow_instr.for: the loop carries 1 tokens, an iteration yields 0}}
// CHECK: glow_instr.for: the loop carries 1 tokens, an iteration yields 0
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @fewer attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %l = glow_instr.for %i = 0 to 8 step 1 carry(%c = %t) {
    glow_instr.wait @after %c : !glow_instr.token
  }
  glow_instr.wait @after %l : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The result of a loop is a token like any other.
// expected-error@unknown {{glow_instr.for: nothing waits for the token; each token must be waited for once}}
// CHECK: glow_instr.for: nothing waits for the token; each token must be waited for once
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @result attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %l = glow_instr.for %i = 0 to 8 step 1 carry(%c = %t) {
    glow_instr.yield %c
  }
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The copy that the turn before started still writes.
// expected-error@unknown {{glow_instr.relu: @in buffer is one that glow_instr.start_copy still writes; wait for its token first}}
// CHECK: glow_instr.relu: @in buffer is one that glow_instr.start_copy still writes; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @turn_before attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %l = glow_instr.for %i = 0 to 8 step 1 carry(%c = %t) {
    glow_instr.relu @out %y, @in %a : memref<8x8xf32>, memref<8x8xf32, "near">
    glow_instr.wait @after %c : !glow_instr.token
    %n = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
    glow_instr.yield %n
  }
  glow_instr.wait @after %l : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// Row i of this turn may be row i of the turn before, for all that a view says.
// expected-error@unknown {{glow_instr.neg: @out buffer is one that glow_instr.start_copy still reads; wait for its token first}}
// CHECK: glow_instr.neg: @out buffer is one that glow_instr.start_copy still reads; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @other_turn attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8xf32, "near">
  %f = glow_instr.tensorview %x : memref<8x8xf32> to memref<8xf32>
  %t = glow_instr.start_copy @out %a, @in %f : memref<8xf32, "near">, memref<8xf32>
  %l = glow_instr.for %i = 0 to 8 step 1 carry(%c = %t) {
    %v = glow_instr.tensorview %x offset 8 * %i : memref<8x8xf32> to memref<8xf32>
    %w = glow_instr.tensorview %y : memref<8x8xf32> to memref<8xf32>
    glow_instr.neg @out %v, @in %w : memref<8xf32>, memref<8xf32>
    glow_instr.wait @after %c : !glow_instr.token
    %n = glow_instr.start_copy @out %a, @in %v : memref<8xf32, "near">, memref<8xf32>
    glow_instr.yield %n
  }
  glow_instr.wait @after %l : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8xf32, "near">
}

// -----

// A loop without turns.
// expected-error@unknown {{glow_instr.for: 8 to 8 step 1 has no iterations; the upper bound must be larger, and the step positive}}
// CHECK: glow_instr.for: 8 to 8 step 1 has no iterations; the upper bound must be larger, and the step positive
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @empty attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 8 to 8 step 1 {
  }
}

// -----

// A loop that goes down.
// expected-error@unknown {{glow_instr.for: 0 to 8 step -1 has no iterations; the upper bound must be larger, and the step positive}}
// CHECK: glow_instr.for: 0 to 8 step -1 has no iterations; the upper bound must be larger, and the step positive
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @down attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 0 to 8 step -1 {
  }
}

// -----

// The last turn leaves the buffer.
// expected-error@unknown {{glow_instr.tensorview: memref<8xf32> at 8 to 64 does not fit in memref<8x8xf32>}}
// CHECK: glow_instr.tensorview: memref<8xf32> at 8 to 64 does not fit in memref<8x8xf32>
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @leaves attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 0 to 8 step 1 {
    %v = glow_instr.tensorview %x offset 8 + 8 * %i : memref<8x8xf32> to memref<8xf32>
  }
}

// -----

// So does the first.
// expected-error@unknown {{glow_instr.tensorview: memref<8xf32> at -8 to 48 does not fit in memref<8x8xf32>}}
// CHECK: glow_instr.tensorview: memref<8xf32> at -8 to 48 does not fit in memref<8x8xf32>
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @before attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 0 to 8 step 1 {
    %v = glow_instr.tensorview %x offset -8 + 8 * %i : memref<8x8xf32> to memref<8xf32>
  }
}

// -----

// A strided view reaches as far as its last element.
// expected-error@unknown {{glow_instr.tensorview: memref<8x2xf32, strided<[8, 1]>> at 7 does not fit in memref<8x8xf32>}}
// CHECK: glow_instr.tensorview: memref<8x2xf32, strided<[8, 1]>> at 7 does not fit in memref<8x8xf32>
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @reach attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %v = glow_instr.tensorview %x offset 7 : memref<8x8xf32> to memref<8x2xf32, strided<[8, 1]>>
}

// -----

// Strides are as many as dimensions.
// expected-error@unknown {{memref<8x2xf32, strided<[8]>>: a layout must be strided}}
// CHECK: memref<8x2xf32, strided<[8]>>: a layout must be strided
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @strides attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %v = glow_instr.tensorview %x : memref<8x8xf32> to memref<8x2xf32, strided<[8]>>
}

// -----

// Strides are numbers.
// expected-error@unknown {{strides must be known numbers, none negative}}
// CHECK: strides must be known numbers, none negative
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @unknown_stride attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %v = glow_instr.tensorview %x : memref<8x8xf32> to memref<8x2xf32, strided<[?, 1]>>
}

// -----

// Memory itself has no gaps.
// expected-error@unknown {{glow_instr.alloc: memref<2xf32, strided<[4]>> is for views; buffers are dense}}
// CHECK: glow_instr.alloc: memref<2xf32, strided<[4]>> is for views; buffers are dense
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @alloc attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<2xf32, strided<[4]>>
  glow_instr.dealloc @out %a : memref<2xf32, strided<[4]>>
}

// -----

// A buffer of outside the loop ends in each turn.
// expected-error@unknown {{glow_instr.dealloc: the buffer was allocated outside of the loop}}
// CHECK: glow_instr.dealloc: the buffer was allocated outside of the loop
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @ends_in_turns attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  glow_instr.for %i = 0 to 8 step 1 {
    glow_instr.dealloc @out %a : memref<8x8xf32, "near">
  }
}

// -----

// A buffer of a turn outlives it.
// expected-error@unknown {{glow_instr.alloc: a buffer memref<8x8xf32, "near"> is never deallocated}}
// CHECK: glow_instr.alloc: a buffer memref<8x8xf32, "near"> is never deallocated
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @outlives attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 0 to 8 step 1 {
    %a = glow_instr.alloc : memref<8x8xf32, "near">
  }
}

// -----

// A buffer is read in the first turn, before the loop writes it.
// expected-error@unknown {{glow_instr.relu: @in buffer is read before it is written}}
// CHECK: glow_instr.relu: @in buffer is read before it is written
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @first_turn attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  glow_instr.for %i = 0 to 8 step 1 {
    glow_instr.relu @out %y, @in %a : memref<8x8xf32>, memref<8x8xf32, "near">
    glow_instr.copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  }
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A turn reads and writes parts that meet.
// expected-error@unknown {{glow_instr.transpose: @out and @in buffers overlap, and in-place is not declared for them}}
// CHECK: glow_instr.transpose: @out and @in buffers overlap, and in-place is not declared for them
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @meet attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 0 to 8 step 1 {
    %v = glow_instr.tensorview %x offset 1 * %i : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1]>>
    %w = glow_instr.tensorview %x offset 9 + 1 * %i : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1]>>
    glow_instr.transpose @out %v, @in %w {permutation = array<i64: 1, 0>} : memref<4x4xf32, strided<[8, 1]>>, memref<4x4xf32, strided<[8, 1]>>
  }
}

// -----

// A yield belongs to a loop.
// expected-error@unknown {{glow_instr.yield is not an instruction}}
// CHECK: glow_instr.yield is not an instruction
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @stray attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.yield
}

// -----

// The declare section is that of the function.
// expected-error@unknown {{glow_instr.weight: belongs in the declare section}}
// CHECK: glow_instr.weight: belongs in the declare section
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @weight attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  glow_instr.for %i = 0 to 8 step 1 {
    %w = glow_instr.weight @x mutable : memref<8x8xf32>
  }
}

// -----

// A load for the next turn goes on while this one computes; tiles of a turn that do not meet are read and written.
// CHECK: [[L:%.*]] = glow_instr.for [[I:%.*]] = 0 to 6 step 2 carry([[C:%.*]] = [[T:%.*]]) {
// CHECK: glow_instr.yield
glow.placeholder @x state : tensor<8x64xf32>
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
