// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// expected-error@unknown {{glow_instr.alloc: there is no memory 'skratch'; there are: scratch}}
// CHECK: there is no memory 'skratch'
glow_instr.func @unknown attributes {memories = {scratch = {size = 64 : i64}}} declare {
} program {
  %a = glow_instr.alloc : memref<4xf32, "skratch">
  glow_instr.dealloc @out %a : memref<4xf32, "skratch">
}

// -----

// expected-error@unknown {{memref<4xf32, 3 : i32>: a memory space must be a name}}
// CHECK: a memory space must be a name
glow_instr.func @number declare {
} program {
  %a = glow_instr.alloc : memref<4xf32, 3 : i32>
  glow_instr.dealloc @out %a : memref<4xf32, 3 : i32>
}

// -----

// expected-error@unknown {{glow_instr.alloc: bytes 56 to 72 lie outside memory 'scratch' of 64 bytes}}
// CHECK: bytes 56 to 72 lie outside memory 'scratch' of 64 bytes
glow_instr.func @outside attributes {memories = {scratch = {size = 64 : i64}}} declare {
} program {
  %a = glow_instr.alloc at 56 : memref<4xf32, "scratch">
  glow_instr.dealloc @out %a : memref<4xf32, "scratch">
}

// -----

// expected-error@unknown {{glow_instr.weight: weights are in the main memory; copy them to others}}
// CHECK: weights are in the main memory
glow.placeholder @x input : tensor<4xf32>
glow_instr.func @weight attributes {memories = {scratch = {size = 64 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<4xf32, "scratch">
} program {
}

// -----

// expected-error@unknown {{glow_instr.tensorview: memref<2xf32> lies in another memory than memref<4xf32, "scratch">}}
// CHECK: lies in another memory
glow_instr.func @view attributes {memories = {scratch = {size = 64 : i64}}} declare {
} program {
  %a = glow_instr.alloc : memref<4xf32, "scratch">
  %v = glow_instr.tensorview %a : memref<4xf32, "scratch"> to memref<2xf32>
  glow_instr.dealloc @out %a : memref<4xf32, "scratch">
}

// -----

// expected-error@unknown {{memory 'scratch' must be written {size = ... : i64}}
// CHECK: memory 'scratch' must be written
glow_instr.func @form attributes {memories = {scratch = {bytes = 64 : i64}}} declare {
} program {
}

// -----

// expected-error@unknown {{a memory must have a positive size}}
// CHECK: a memory must have a positive size
glow_instr.func @size attributes {memories = {scratch = {size = 0 : i64}}} declare {
} program {
}

// -----

// A buffer of one memory is copied to another; places of two memories do not meet.
// CHECK: glow_instr.func @right
glow.placeholder @x input : tensor<4xf32>
glow_instr.func @right attributes {memories = {near = {size = 64 : i64}, far = {size = 64 : i64}}} declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
} program {
  %a = glow_instr.alloc at 0 : memref<4xf32, "near">
  %b = glow_instr.alloc at 0 : memref<4xf32, "far">
  glow_instr.copy @out %a, @in %x : memref<4xf32, "near">, memref<4xf32>
  glow_instr.copy @out %b, @in %a : memref<4xf32, "far">, memref<4xf32, "near">
  glow_instr.dealloc @out %b : memref<4xf32, "far">
  glow_instr.dealloc @out %a : memref<4xf32, "near">
}
