// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// One direction of a network whose input is projected: the loop over time, and the loop back.

glow.placeholder @a0 input : tensor<3x2x20xf32>
glow.placeholder @a1 input : tensor<5x20xf32>
glow.placeholder @a2 input : tensor<2x5xf32>
glow.placeholder @a3 input : tensor<2x5xf32>
glow.placeholder @a4 input : tensor<3x2x5xf32>
glow.placeholder @a5 input : tensor<20x5xf32>
glow.placeholder @a6 input : tensor<3x2x5xf32>
glow.placeholder @a7 input : tensor<3x2x25xf32>
glow.placeholder @a8 input : tensor<2x5xf32>
glow.placeholder @a9 input : tensor<2x5xf32>
glow.placeholder @a10 input : tensor<3x2x15xf32>
glow.placeholder @a11 input : tensor<5x15xf32>
glow.placeholder @a12 input : tensor<2x5xf32>
glow.placeholder @a13 input : tensor<5xf32>
glow.placeholder @a14 input : tensor<3x2x5xf32>
glow.placeholder @a15 input : tensor<15x5xf32>
glow.placeholder @a16 input : tensor<3x2x5xf32>
glow.placeholder @a17 input : tensor<3x2x20xf32>
glow.placeholder @a18 input : tensor<2x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x2x20xf32>
  %a1 = glow.get @a1 : tensor<5x20xf32>
  %a2 = glow.get @a2 : tensor<2x5xf32>
  %a3 = glow.get @a3 : tensor<2x5xf32>
  // CHECK: = glow.recurrent_train %a0, %a1, %a2, %a3 {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x20xf32>, tensor<5x20xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> (tensor<3x2x5xf32>, tensor<3x2x25xf32>, tensor<3x2x5xf32>)
  %0, %1, %2 = glow.recurrent_train %a0, %a1, %a2, %a3 {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x20xf32>, tensor<5x20xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> (tensor<3x2x5xf32>, tensor<3x2x25xf32>, tensor<3x2x5xf32>)
  %a4 = glow.get @a4 : tensor<3x2x5xf32>
  %a5 = glow.get @a5 : tensor<20x5xf32>
  %a6 = glow.get @a6 : tensor<3x2x5xf32>
  %a7 = glow.get @a7 : tensor<3x2x25xf32>
  %a8 = glow.get @a8 : tensor<2x5xf32>
  %a9 = glow.get @a9 : tensor<2x5xf32>
  // CHECK: = glow.recurrent_backward %a4, %a5, %a6, %a7, %a8, %a9 {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x5xf32>, tensor<20x5xf32>, tensor<3x2x5xf32>, tensor<3x2x25xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> (tensor<3x2x20xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  %3, %4, %5 = glow.recurrent_backward %a4, %a5, %a6, %a7, %a8, %a9 {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x5xf32>, tensor<20x5xf32>, tensor<3x2x5xf32>, tensor<3x2x25xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> (tensor<3x2x20xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  %a10 = glow.get @a10 : tensor<3x2x15xf32>
  %a11 = glow.get @a11 : tensor<5x15xf32>
  %a12 = glow.get @a12 : tensor<2x5xf32>
  %a13 = glow.get @a13 : tensor<5xf32>
  // CHECK: = glow.recurrent_train %a10, %a11, %a12, %a13 {kind = "gru", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0>} : (tensor<3x2x15xf32>, tensor<5x15xf32>, tensor<2x5xf32>, tensor<5xf32>) -> (tensor<3x2x5xf32>, tensor<3x2x20xf32>)
  %6, %7 = glow.recurrent_train %a10, %a11, %a12, %a13 {kind = "gru", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0>} : (tensor<3x2x15xf32>, tensor<5x15xf32>, tensor<2x5xf32>, tensor<5xf32>) -> (tensor<3x2x5xf32>, tensor<3x2x20xf32>)
  %a14 = glow.get @a14 : tensor<3x2x5xf32>
  %a15 = glow.get @a15 : tensor<15x5xf32>
  %a16 = glow.get @a16 : tensor<3x2x5xf32>
  %a17 = glow.get @a17 : tensor<3x2x20xf32>
  %a18 = glow.get @a18 : tensor<2x5xf32>
  // CHECK: = glow.recurrent_backward %a14, %a15, %a16, %a17, %a18 {kind = "gru", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<3x2x5xf32>, tensor<15x5xf32>, tensor<3x2x5xf32>, tensor<3x2x20xf32>, tensor<2x5xf32>) -> (tensor<3x2x15xf32>, tensor<2x5xf32>, tensor<3x2x5xf32>)
  %8, %9, %10 = glow.recurrent_backward %a14, %a15, %a16, %a17, %a18 {kind = "gru", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<3x2x5xf32>, tensor<15x5xf32>, tensor<3x2x5xf32>, tensor<3x2x20xf32>, tensor<2x5xf32>) -> (tensor<3x2x15xf32>, tensor<2x5xf32>, tensor<3x2x5xf32>)
}

// -----

// expected-error@unknown {{glow.recurrent_train: projected is tensor<3x2x20xf32>, expected tensor<3x2x15xf32>}}
glow.placeholder @x input : tensor<3x2x20xf32>
glow.placeholder @w input : tensor<5x15xf32>
glow.placeholder @h input : tensor<2x5xf32>
glow.func @main {
  %x = glow.get @x : tensor<3x2x20xf32>
  %w = glow.get @w : tensor<5x15xf32>
  %h = glow.get @h : tensor<2x5xf32>
  // CHECK: projected is tensor<3x2x20xf32>, expected tensor<3x2x15xf32>
  %y, %s = glow.recurrent_train %x, %w, %h {kind = "gru", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<3x2x20xf32>, tensor<5x15xf32>, tensor<2x5xf32>) -> (tensor<3x2x5xf32>, tensor<3x2x20xf32>)
}
