// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A token that nobody takes: the copy may never end.
// expected-error@unknown {{glow_instr.start_copy: nothing waits for the token; each token must be waited for once}}
// CHECK: glow_instr.start_copy: nothing waits for the token; each token must be waited for once
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @never attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// Each token is one event.
// expected-error@unknown {{glow_instr.start_copy: the token is waited for 2 times; each token must be waited for once}}
// CHECK: glow_instr.start_copy: the token is waited for 2 times; each token must be waited for once
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @twice attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// One wait that takes a token twice.
// expected-error@unknown {{glow_instr.start_copy: the token is waited for 2 times; each token must be waited for once}}
// CHECK: glow_instr.start_copy: the token is waited for 2 times; each token must be waited for once
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @same_wait attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.wait @after %t, @after %t : !glow_instr.token, !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The wait stands before the start.
// expected-error@unknown {{glow_instr.wait: a buffer is used before its definition}}
// CHECK: glow_instr.wait: a buffer is used before its definition
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @early attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  glow_instr.wait @after %t : !glow_instr.token
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The destination is read while it is written.
// expected-error@unknown {{glow_instr.relu: @in buffer is one that glow_instr.start_copy still writes; wait for its token first}}
// CHECK: glow_instr.relu: @in buffer is one that glow_instr.start_copy still writes; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @read_early attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.relu @out %y, @in %a : memref<8x8xf32>, memref<8x8xf32, "near">
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The destination is written while it is written.
// expected-error@unknown {{glow_instr.copy: @out buffer is one that glow_instr.start_copy still writes; wait for its token first}}
// CHECK: glow_instr.copy: @out buffer is one that glow_instr.start_copy still writes; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @write_early attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.copy @out %a, @in %y : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The source is written while it is read.
// expected-error@unknown {{glow_instr.relu: @out buffer is one that glow_instr.start_copy still reads; wait for its token first}}
// CHECK: glow_instr.relu: @out buffer is one that glow_instr.start_copy still reads; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @overwritten attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.relu @out %x, @in %y : memref<8x8xf32>, memref<8x8xf32>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// The destination ends while it is written.
// expected-error@unknown {{glow_instr.dealloc: @out buffer is one that glow_instr.start_copy still writes; wait for its token first}}
// CHECK: glow_instr.dealloc: @out buffer is one that glow_instr.start_copy still writes; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @ended attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
  glow_instr.wait @after %t : !glow_instr.token
}

// -----

// The source ends while it is read.
// expected-error@unknown {{glow_instr.dealloc: @out buffer is one that glow_instr.start_copy still reads; wait for its token first}}
// CHECK: glow_instr.dealloc: @out buffer is one that glow_instr.start_copy still reads; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @source_ended attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  glow_instr.copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %t = glow_instr.start_copy @out %y, @in %a : memref<8x8xf32>, memref<8x8xf32, "near">
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
  glow_instr.wait @after %t : !glow_instr.token
}

// -----

// Two copies to one place.
// expected-error@unknown {{glow_instr.start_copy: @out buffer is one that glow_instr.start_copy still writes; wait for its token first}}
// CHECK: glow_instr.start_copy: @out buffer is one that glow_instr.start_copy still writes; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @two_writers attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %u = glow_instr.start_copy @out %a, @in %y : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.wait @after %t, @after %u : !glow_instr.token, !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A view of what is under way counts as much as the whole.
// expected-error@unknown {{glow_instr.relu: @in buffer is one that glow_instr.start_copy still writes; wait for its token first}}
// CHECK: glow_instr.relu: @in buffer is one that glow_instr.start_copy still writes; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @view attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  %v = glow_instr.tensorview %a offset 8 : memref<8x8xf32, "near"> to memref<8xf32, "near">
  %w = glow_instr.tensorview %y : memref<8x8xf32> to memref<8xf32>
  glow_instr.relu @out %w, @in %v : memref<8xf32>, memref<8xf32, "near">
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// What is read again from the source is right, but the part of it that is written meets what the copy reads.
// expected-error@unknown {{glow_instr.neg: @out buffer is one that glow_instr.start_copy still reads; wait for its token first}}
// CHECK: glow_instr.neg: @out buffer is one that glow_instr.start_copy still reads; wait for its token first
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @columns attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %l = glow_instr.tensorview %x : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  %r = glow_instr.tensorview %x offset 3 : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  %b = glow_instr.tensorview %a : memref<8x8xf32, "near"> to memref<8x4xf32, strided<[8, 1]>, "near">
  %c = glow_instr.tensorview %y : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  %t = glow_instr.start_copy @out %b, @in %l : memref<8x4xf32, strided<[8, 1]>, "near">, memref<8x4xf32, strided<[8, 1]>>
  glow_instr.neg @out %r, @in %c : memref<8x4xf32, strided<[8, 1]>>, memref<8x4xf32, strided<[8, 1]>>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A buffer is no token.
// expected-error@unknown {{glow_instr.wait}}
// CHECK: glow_instr.wait
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @no_token attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  glow_instr.wait @after %a : memref<8x8xf32, "near">
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A token is no buffer.
// expected-error@unknown {{glow_instr.relu}}
// CHECK: glow_instr.relu
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @no_buffer attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<8x8xf32, "near">, memref<8x8xf32>
  glow_instr.relu @out %y, @in %t : memref<8x8xf32>, !glow_instr.token
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// A copy to another shape.
// expected-error@unknown {{glow_instr.start_copy: memref<8x8xf32> does not fit memref<4xf32, "near">}}
// CHECK: glow_instr.start_copy: memref<8x8xf32> does not fit memref<4xf32, "near">
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @shape attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32, "near">
  %t = glow_instr.start_copy @out %a, @in %x : memref<4xf32, "near">, memref<8x8xf32>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<4xf32, "near">
}

// -----

// Nothing waits for what a predicate may leave out.
// expected-error@unknown {{glow_instr.start_copy: an instruction that is waited for cannot have a predicate}}
// CHECK: glow_instr.start_copy: an instruction that is waited for cannot have a predicate
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @predicate attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %p = glow_instr.alloc : memref<i1>
  %t = glow_instr.start_copy @out %a, @in %x pred %p : memref<8x8xf32, "near">, memref<8x8xf32>, memref<i1>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %p : memref<i1>
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}

// -----

// Parts of one buffer that do not meet, columns here, are used side by side; any instruction may wait.
// CHECK: glow_instr.func @right
glow.placeholder @x state : tensor<8x8xf32>
glow.placeholder @y output : tensor<8x8xf32>
glow_instr.func @right attributes {memories = {near = {size = 4096 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<8x8xf32>
  %y = glow_instr.weight @y mutable : memref<8x8xf32>
} program {
  %a = glow_instr.alloc : memref<8x8xf32, "near">
  %l = glow_instr.tensorview %x : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  %r = glow_instr.tensorview %x offset 4 : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  %b = glow_instr.tensorview %a : memref<8x8xf32, "near"> to memref<8x4xf32, strided<[8, 1]>, "near">
  %c = glow_instr.tensorview %y : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  %t = glow_instr.start_copy @out %b, @in %l : memref<8x4xf32, strided<[8, 1]>, "near">, memref<8x4xf32, strided<[8, 1]>>
  glow_instr.neg @out %r, @in %c : memref<8x4xf32, strided<[8, 1]>>, memref<8x4xf32, strided<[8, 1]>>
  glow_instr.wait @after %t : !glow_instr.token
  glow_instr.dealloc @out %a : memref<8x8xf32, "near">
}
