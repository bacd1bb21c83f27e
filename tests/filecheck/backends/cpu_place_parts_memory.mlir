// RUN: glow-opt %s -p glow-cpu-place-parts | filecheck %s

// A view begins on an aligned address (64 bytes), of elements that are neighbours, and lives as long as its buffer.
// What is not placed stays as it is: buffers keep the lives they had, here from the first line to the last.

glow.placeholder @x input : tensor<64xf32>
glow.placeholder @y output : tensor<64xf32>
glow.placeholder @z output : tensor<64xf32>
glow.placeholder @s state : tensor<64xf32>

// The end of a row; the buffer then lives as long as it does.
// CHECK-LABEL: glow_instr.func @rest_of_a_row
// CHECK:       %b = glow_instr.tensorview %a offset 48 : memref<2x32xf32> to memref<1x16xf32>
// CHECK-NEXT:  glow_instr.relu @out %y, @in %b
// CHECK-NEXT:  glow_instr.dealloc @out %a
glow_instr.func @rest_of_a_row declare {
  %x = glow_instr.weight @x mutable : memref<2x32xf32>
  %y = glow_instr.weight @y mutable : memref<1x16xf32>
} program {
  %a = glow_instr.alloc : memref<2x32xf32>
  %b = glow_instr.alloc : memref<1x16xf32>
  glow_instr.neg @out %a, @in %x : memref<2x32xf32>, memref<2x32xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 1, 16>, ends = array<i64: 2, 32>, steps = array<i64: 1, 1>} : memref<1x16xf32>, memref<2x32xf32>
  glow_instr.dealloc @out %a : memref<2x32xf32>
  glow_instr.relu @out %y, @in %b : memref<1x16xf32>, memref<1x16xf32>
  glow_instr.dealloc @out %b : memref<1x16xf32>
}

// One number, whatever its step.
// CHECK-LABEL: glow_instr.func @one_of_many
// CHECK:       %b = glow_instr.tensorview %a offset 32 : memref<64xf32> to memref<1xf32>
// CHECK-NEXT:  glow_instr.relu @out %y, @in %b
glow_instr.func @one_of_many declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<1xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  %b = glow_instr.alloc : memref<1xf32>
  glow_instr.neg @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 32>, ends = array<i64: 33>, steps = array<i64: 2>} : memref<1xf32>, memref<64xf32>
  glow_instr.relu @out %y, @in %b : memref<1xf32>, memref<1xf32>
  glow_instr.dealloc @out %b : memref<1xf32>
  glow_instr.dealloc @out %a : memref<64xf32>
}

// Every other number: no neighbours.
// CHECK-LABEL: glow_instr.func @steps
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.slice @out %b, @in %a
glow_instr.func @steps declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<2xf32>
} program {
  %a = glow_instr.alloc : memref<4xf32>
  %b = glow_instr.alloc : memref<2xf32>
  glow_instr.neg @out %a, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 0>, ends = array<i64: 3>, steps = array<i64: 2>} : memref<2xf32>, memref<4xf32>
  glow_instr.relu @out %y, @in %b : memref<2xf32>, memref<2xf32>
  glow_instr.dealloc @out %b : memref<2xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}

// The ends of two rows: no neighbours either.
// CHECK-LABEL: glow_instr.func @columns
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.slice @out %b, @in %a
glow_instr.func @columns declare {
  %x = glow_instr.weight @x mutable : memref<2x32xf32>
  %y = glow_instr.weight @y mutable : memref<2x16xf32>
} program {
  %a = glow_instr.alloc : memref<2x32xf32>
  %b = glow_instr.alloc : memref<2x16xf32>
  glow_instr.neg @out %a, @in %x : memref<2x32xf32>, memref<2x32xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 0, 16>, ends = array<i64: 2, 32>, steps = array<i64: 1, 1>} : memref<2x16xf32>, memref<2x32xf32>
  glow_instr.relu @out %y, @in %b : memref<2x16xf32>, memref<2x16xf32>
  glow_instr.dealloc @out %b : memref<2x16xf32>
  glow_instr.dealloc @out %a : memref<2x32xf32>
}

// Nor where an axis of one lies between.
// CHECK-LABEL: glow_instr.func @columns_of_matrices
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.slice @out %b, @in %a
glow_instr.func @columns_of_matrices declare {
  %x = glow_instr.weight @x mutable : memref<2x1x32xf32>
  %y = glow_instr.weight @y mutable : memref<2x1x16xf32>
} program {
  %a = glow_instr.alloc : memref<2x1x32xf32>
  %b = glow_instr.alloc : memref<2x1x16xf32>
  glow_instr.neg @out %a, @in %x : memref<2x1x32xf32>, memref<2x1x32xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 0, 0, 16>, ends = array<i64: 2, 1, 32>, steps = array<i64: 1, 1, 1>} : memref<2x1x16xf32>, memref<2x1x32xf32>
  glow_instr.relu @out %y, @in %b : memref<2x1x16xf32>, memref<2x1x16xf32>
  glow_instr.dealloc @out %b : memref<2x1x16xf32>
  glow_instr.dealloc @out %a : memref<2x1x32xf32>
}

// Kernels demand aligned addresses.
// CHECK-LABEL: glow_instr.func @not_aligned
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.slice @out %b, @in %a
glow_instr.func @not_aligned declare {
  %x = glow_instr.weight @x mutable : memref<2x32xf32>
  %y = glow_instr.weight @y mutable : memref<1x16xf32>
} program {
  %a = glow_instr.alloc : memref<2x32xf32>
  %b = glow_instr.alloc : memref<1x16xf32>
  glow_instr.neg @out %a, @in %x : memref<2x32xf32>, memref<2x32xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 1, 8>, ends = array<i64: 2, 24>, steps = array<i64: 1, 1>} : memref<1x16xf32>, memref<2x32xf32>
  glow_instr.relu @out %y, @in %b : memref<1x16xf32>, memref<1x16xf32>
  glow_instr.dealloc @out %b : memref<1x16xf32>
  glow_instr.dealloc @out %a : memref<2x32xf32>
}

// A part of a part, aligned together.
// CHECK-LABEL: glow_instr.func @part_of_part
// CHECK:       %b = glow_instr.tensorview %v offset 12 : memref<60xf32> to memref<16xf32>
glow_instr.func @part_of_part declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  %b = glow_instr.alloc : memref<16xf32>
  glow_instr.neg @out %a, @in %x : memref<64xf32>, memref<64xf32>
  %v = glow_instr.tensorview %a offset 4 : memref<64xf32> to memref<60xf32>
  glow_instr.slice @out %b, @in %v {starts = array<i64: 12>, ends = array<i64: 28>, steps = array<i64: 1>} : memref<16xf32>, memref<60xf32>
  glow_instr.relu @out %y, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %b : memref<16xf32>
  glow_instr.dealloc @out %a : memref<64xf32>
}

// A slice that is an output is copied there.
// CHECK-LABEL: glow_instr.func @output
// CHECK:       glow_instr.slice @out %y, @in %a
glow_instr.func @output declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  glow_instr.neg @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.slice @out %y, @in %a {starts = array<i64: 16>, ends = array<i64: 32>, steps = array<i64: 1>} : memref<16xf32>, memref<64xf32>
  glow_instr.dealloc @out %a : memref<64xf32>
}

// What is written over the slice would be written into the buffer.
// CHECK-LABEL: glow_instr.func @written_itself
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg
// CHECK-NEXT:  glow_instr.slice @out %b, @in %a
glow_instr.func @written_itself declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  %b = glow_instr.alloc : memref<16xf32>
  glow_instr.neg @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 16>, ends = array<i64: 32>, steps = array<i64: 1>} : memref<16xf32>, memref<64xf32>
  glow_instr.neg @out %b, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.relu @out %y, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %b : memref<16xf32>
  glow_instr.dealloc @out %a : memref<64xf32>
}

// The buffer gets other contents while the slice is still read.
// CHECK-LABEL: glow_instr.func @written_before_the_last_read
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg
// CHECK-NEXT:  glow_instr.slice @out %b, @in %a
glow_instr.func @written_before_the_last_read declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  %b = glow_instr.alloc : memref<16xf32>
  glow_instr.neg @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 16>, ends = array<i64: 32>, steps = array<i64: 1>} : memref<16xf32>, memref<64xf32>
  glow_instr.exp @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.relu @out %y, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %b : memref<16xf32>
  glow_instr.dealloc @out %a : memref<64xf32>
}

// The buffer gets other contents when the slice has been read.
// CHECK-LABEL: glow_instr.func @written_after_the_last_read
// CHECK:       %b = glow_instr.tensorview %a offset 16
// CHECK-NEXT:  glow_instr.relu @out %y, @in %b
// CHECK-NEXT:  glow_instr.exp @out %a
glow_instr.func @written_after_the_last_read declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %a = glow_instr.alloc : memref<64xf32>
  %b = glow_instr.alloc : memref<16xf32>
  glow_instr.neg @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.slice @out %b, @in %a {starts = array<i64: 16>, ends = array<i64: 32>, steps = array<i64: 1>} : memref<16xf32>, memref<64xf32>
  glow_instr.relu @out %y, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.exp @out %a, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.dealloc @out %b : memref<16xf32>
  glow_instr.dealloc @out %a : memref<64xf32>
}

// A state that is written keeps its slices apart.
// CHECK-LABEL: glow_instr.func @state
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.slice @out %b, @in %s
glow_instr.func @state declare {
  %x = glow_instr.weight @x mutable : memref<64xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
  %s = glow_instr.weight @s mutable : memref<64xf32>
} program {
  %b = glow_instr.alloc : memref<16xf32>
  glow_instr.slice @out %b, @in %s {starts = array<i64: 16>, ends = array<i64: 32>, steps = array<i64: 1>} : memref<16xf32>, memref<64xf32>
  glow_instr.relu @out %y, @in %b : memref<16xf32>, memref<16xf32>
  glow_instr.neg @out %s, @in %x : memref<64xf32>, memref<64xf32>
  glow_instr.dealloc @out %b : memref<16xf32>
}

// A part is read when its whole is no more: the whole lives as long.
// CHECK-LABEL: glow_instr.func @part_outlives_whole
// CHECK:       %c = glow_instr.alloc
// CHECK-NEXT:  %a = glow_instr.tensorview %c : memref<64xf32> to memref<32xf32>
// CHECK-NEXT:  %b = glow_instr.tensorview %c offset 32 : memref<64xf32> to memref<32xf32>
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.exp @out %b
// CHECK-NEXT:  glow_instr.relu @out %y, @in %c
// CHECK-NEXT:  glow_instr.neg @out %z, @in %a
// CHECK-NEXT:  glow_instr.dealloc @out %c
glow_instr.func @part_outlives_whole declare {
  %x = glow_instr.weight @x mutable : memref<32xf32>
  %y = glow_instr.weight @y mutable : memref<64xf32>
  %z = glow_instr.weight @z mutable : memref<32xf32>
} program {
  %c = glow_instr.alloc : memref<64xf32>
  %a = glow_instr.alloc : memref<32xf32>
  %b = glow_instr.alloc : memref<32xf32>
  glow_instr.neg @out %a, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.exp @out %b, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.concat @out %c, @in %a, @in %b {axis = 0 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>
  glow_instr.relu @out %y, @in %c : memref<64xf32>, memref<64xf32>
  glow_instr.dealloc @out %c : memref<64xf32>
  glow_instr.neg @out %z, @in %a : memref<32xf32>, memref<32xf32>
  glow_instr.dealloc @out %a : memref<32xf32>
  glow_instr.dealloc @out %b : memref<32xf32>
}

// The second part would begin between two aligned addresses.
// CHECK-LABEL: glow_instr.func @parts_not_aligned
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.exp @out %b
// CHECK-NEXT:  glow_instr.concat @out %c, @in %a, @in %b
glow_instr.func @parts_not_aligned declare {
  %x = glow_instr.weight @x mutable : memref<8xf32>
  %y = glow_instr.weight @y mutable : memref<16xf32>
} program {
  %c = glow_instr.alloc : memref<16xf32>
  %a = glow_instr.alloc : memref<8xf32>
  %b = glow_instr.alloc : memref<8xf32>
  glow_instr.neg @out %a, @in %x : memref<8xf32>, memref<8xf32>
  glow_instr.exp @out %b, @in %x : memref<8xf32>, memref<8xf32>
  glow_instr.concat @out %c, @in %a, @in %b {axis = 0 : i64} : memref<16xf32>, memref<8xf32>, memref<8xf32>
  glow_instr.relu @out %y, @in %c : memref<16xf32>, memref<16xf32>
  glow_instr.dealloc @out %a : memref<8xf32>
  glow_instr.dealloc @out %b : memref<8xf32>
  glow_instr.dealloc @out %c : memref<16xf32>
}

// A whole that is an output is copied there.
// CHECK-LABEL: glow_instr.func @whole_is_output
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.exp @out %b
// CHECK-NEXT:  glow_instr.concat @out %y, @in %a, @in %b
glow_instr.func @whole_is_output declare {
  %x = glow_instr.weight @x mutable : memref<32xf32>
  %y = glow_instr.weight @y mutable : memref<64xf32>
} program {
  %a = glow_instr.alloc : memref<32xf32>
  %b = glow_instr.alloc : memref<32xf32>
  glow_instr.neg @out %a, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.exp @out %b, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.concat @out %y, @in %a, @in %b {axis = 0 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>
  glow_instr.dealloc @out %a : memref<32xf32>
  glow_instr.dealloc @out %b : memref<32xf32>
}

// What is written over the whole would be written over a part that is still read.
// CHECK-LABEL: glow_instr.func @whole_is_written_again
// CHECK:       %b = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.exp @out %b
// CHECK-NEXT:  glow_instr.concat @out %c, @in %a, @in %b
glow_instr.func @whole_is_written_again declare {
  %x = glow_instr.weight @x mutable : memref<32xf32>
  %y = glow_instr.weight @y mutable : memref<64xf32>
  %z = glow_instr.weight @z mutable : memref<32xf32>
} program {
  %c = glow_instr.alloc : memref<64xf32>
  %a = glow_instr.alloc : memref<32xf32>
  %b = glow_instr.alloc : memref<32xf32>
  glow_instr.neg @out %a, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.exp @out %b, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.concat @out %c, @in %a, @in %b {axis = 0 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>
  glow_instr.neg @out %c, @in %c : memref<64xf32>, memref<64xf32>
  glow_instr.relu @out %y, @in %c : memref<64xf32>, memref<64xf32>
  glow_instr.neg @out %z, @in %a : memref<32xf32>, memref<32xf32>
  glow_instr.dealloc @out %a : memref<32xf32>
  glow_instr.dealloc @out %b : memref<32xf32>
  glow_instr.dealloc @out %c : memref<64xf32>
}

// Neither part can be the place of both.
// CHECK-LABEL: glow_instr.func @same_part_twice
// CHECK:       %a = glow_instr.alloc
// CHECK-NEXT:  glow_instr.neg @out %a
// CHECK-NEXT:  glow_instr.concat @out %c, @in %a, @in %a
glow_instr.func @same_part_twice declare {
  %x = glow_instr.weight @x mutable : memref<32xf32>
  %y = glow_instr.weight @y mutable : memref<64xf32>
} program {
  %c = glow_instr.alloc : memref<64xf32>
  %a = glow_instr.alloc : memref<32xf32>
  glow_instr.neg @out %a, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.concat @out %c, @in %a, @in %a {axis = 0 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>
  glow_instr.relu @out %y, @in %c : memref<64xf32>, memref<64xf32>
  glow_instr.dealloc @out %a : memref<32xf32>
  glow_instr.dealloc @out %c : memref<64xf32>
}

// Parts with places of their own are copied either way.
// CHECK-LABEL: glow_instr.func @inputs
// CHECK:       %c = glow_instr.alloc
// CHECK-NEXT:  glow_instr.concat @out %c, @in %x, @in %x
// CHECK-NEXT:  glow_instr.relu @out %y, @in %c
// CHECK-NEXT:  glow_instr.neg @out %z, @in %x
// CHECK-NEXT:  glow_instr.dealloc @out %c
glow_instr.func @inputs declare {
  %x = glow_instr.weight @x mutable : memref<32xf32>
  %y = glow_instr.weight @y mutable : memref<64xf32>
  %z = glow_instr.weight @z mutable : memref<32xf32>
} program {
  %c = glow_instr.alloc : memref<64xf32>
  glow_instr.concat @out %c, @in %x, @in %x {axis = 0 : i64} : memref<64xf32>, memref<32xf32>, memref<32xf32>
  glow_instr.relu @out %y, @in %c : memref<64xf32>, memref<64xf32>
  glow_instr.neg @out %z, @in %x : memref<32xf32>, memref<32xf32>
  glow_instr.dealloc @out %c : memref<64xf32>
}
