// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error: {{.*}}the program is not valid: glow_instr.relu: @out buffer is used outside its life
// expected-error@unknown {{glow_instr.relu: @out buffer is used outside its life}}
glow.placeholder @x state : tensor<4xf32>
glow_instr.func @after_dealloc declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
  glow_instr.relu @out %a, @in %x : memref<4xf32>, memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.relu: @in buffer is read before it is written}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.relu: @in buffer is read before it is written
glow.placeholder @y output : tensor<4xf32>
glow_instr.func @uninitialised declare {
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.relu @out %y, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.relu: writes constant weight @w}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.relu: writes constant weight @w
glow.constant @w = dense<1.0> : tensor<4xf32>
glow.placeholder @x state : tensor<4xf32>
glow_instr.func @constant declare {
  %w = glow_instr.weight @w constant : memref<4xf32>
  %x = glow_instr.weight @x mutable : memref<4xf32>
} program {
  glow_instr.relu @out %w, @in %x : memref<4xf32>, memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.weight: @x is not constant}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.weight: @x is not constant
glow.placeholder @x state : tensor<4xf32>
glow_instr.func @mutability declare {
  %x = glow_instr.weight @x constant : memref<4xf32>
} program {
}

// -----

// expected-error@unknown {{glow_instr.dealloc: the buffer was deallocated before}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.dealloc: the buffer was deallocated before
glow_instr.func @twice declare {
} program {
  %a = glow_instr.alloc : memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.dealloc: only an alloc has an end of life}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.dealloc: only an alloc has an end of life
glow.placeholder @x state : tensor<4xf32>
glow_instr.func @weight_end declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
} program {
  glow_instr.dealloc @out %x : memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.transpose: @out and @in are one buffer, and in-place is not declared for it}}
// Reading and writing one buffer is for instructions that declare it in place.
// CHECK: error: {{.*}}the program is not valid: glow_instr.{{.*}}: @out and @in
glow.placeholder @x state : tensor<4x4xf32>
glow_instr.func @in_place declare {
  %x = glow_instr.weight @x mutable : memref<4x4xf32>
} program {
  glow_instr.transpose @out %x, @in %x {permutation = array<i64: 1, 0>} : memref<4x4xf32>, memref<4x4xf32>
}

// -----

// expected-error@unknown {{glow_instr.tensorview: memref<4xf32> at 6 does not fit in memref<8xf32>}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.tensorview: memref<4xf32> at 6 does not fit in memref<8xf32>
glow.placeholder @x state : tensor<8xf32>
glow_instr.func @view declare {
  %x = glow_instr.weight @x mutable : memref<8xf32>
} program {
  %v = glow_instr.tensorview %x offset 6 : memref<8xf32> to memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.copy: memref<8xf32> does not fit memref<4xf32>}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.copy: memref<8xf32> does not fit memref<4xf32>
glow.placeholder @x state : tensor<8xf32>
glow.placeholder @y output : tensor<4xf32>
glow_instr.func @copy declare {
  %x = glow_instr.weight @x mutable : memref<8xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  glow_instr.copy @out %y, @in %x : memref<4xf32>, memref<8xf32>
}

// -----

// expected-error@unknown {{glow_instr.relu: operand marked @out is @in}}
// CHECK: glow_instr.relu: operand marked @out is @in
glow.placeholder @x state : tensor<4xf32>
glow_instr.func @mode declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
} program {
  glow_instr.relu @out %x, @out %x : memref<4xf32>, memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.alloc: a buffer memref<4xf32> is never deallocated}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.alloc: a buffer memref<4xf32> is never deallocated
glow_instr.func @kept declare {
} program {
  %a = glow_instr.alloc : memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.alloc: bytes 8 to 24 overlap those of a live buffer memref<4xf32>, 0 to 16}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.alloc: bytes 8 to 24 overlap those of a live buffer memref<4xf32>, 0 to 16
glow_instr.func @overlap attributes {arena = 64 : i64} declare {
} program {
  %a = glow_instr.alloc at 0 : memref<4xf32>
  %b = glow_instr.alloc at 8 : memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.alloc: bytes 56 to 72 lie outside the arena of 64 bytes}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.alloc: bytes 56 to 72 lie outside the arena of 64 bytes
glow_instr.func @outside attributes {arena = 64 : i64} declare {
} program {
  %a = glow_instr.alloc at 56 : memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}

// -----

// A place is free again once its buffer has ended.
// CHECK: glow_instr.func @one_after_another
glow_instr.func @one_after_another attributes {arena = 64 : i64} declare {
} program {
  %a = glow_instr.alloc at 0 : memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
  %b = glow_instr.alloc at 8 : memref<4xf32>
  glow_instr.dealloc @out %b : memref<4xf32>
}

// -----

// expected-error@unknown {{glow_instr.tensorview: memref<17xf32> at 0 does not fit in memref<64xi8>}}
// Views count bytes: 64 bytes hold 16 floats.
// CHECK: error: {{.*}}the program is not valid: glow_instr.tensorview: memref<17xf32> at 0 does not fit in memref<64xi8>
glow_instr.func @bytes declare {
} program {
  %a = glow_instr.alloc : memref<64xi8>
  %b = glow_instr.tensorview %a : memref<64xi8> to memref<16xf32>
  %c = glow_instr.tensorview %a : memref<64xi8> to memref<17xf32>
  glow_instr.dealloc @out %a : memref<64xi8>
}

// -----

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
// CHECK: glow_instr.relu: writes @x, an input, which a program only reads; use a state
// expected-error@+5 {{writes @x, an input}}
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  glow_instr.relu @out %x, @in %y : memref<4xf32>, memref<4xf32>
}
