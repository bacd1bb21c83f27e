// RUN: glow-opt %s -p glow-cpu-turns --split-input-file | filecheck %s

// Rows that turns gather are taken by the loop, what they scatter row by row it stacks. The number of the turn
// is a row, too; what no turn changes is computed before, and state that stays is none.
builtin.module attributes {glow.symbols = #glow.symbols<n = 64 from 2>} {
  glow.placeholder @x input : tensor<[n]x4xf32>
  glow.placeholder @h input : tensor<4xf32>
  glow.placeholder @k input : tensor<4xf32>
  glow.placeholder @last output : tensor<4xf32>
  glow.placeholder @y output : tensor<[n]x4xf32>
  glow.placeholder @same output : tensor<4xf32>
  glow.constant @on = dense<true> : tensor<i1>
  // CHECK: glow.placeholder @main.turn.in0 transfer : tensor<4xf32>
  // CHECK: glow.placeholder @main.turn.in1 transfer : tensor<4xf32>
  // CHECK: glow.placeholder @main.turn.in2 transfer : tensor<i64>
  // CHECK: glow.placeholder @main.turn.in3 transfer : tensor<4xf32>
  // CHECK: glow.placeholder @main.turn.out0 transfer : tensor<4xf32>
  // CHECK: glow.placeholder @main.turn.out1 transfer : tensor<4xf32>
  // CHECK-LABEL: glow.func @main {
  glow.func @main {
    %x = glow.get @x : tensor<[n]x4xf32>
    %h = glow.get @h : tensor<4xf32>
    %k = glow.get @k : tensor<4xf32>
    %n = glow.sizes {values = #glow.sizes<[n]>} : () -> tensor<i64>
    %room = glow.splat {value = 0.0 : f64} : () -> tensor<[n]x4xf32>
    // CHECK: [[K:%.*]] = glow.exp %k
    // CHECK: [[I:%.*]] = glow.iota : () -> tensor<[n]xi64>
    // CHECK: {{%.*}}, {{%.*}} = glow_cpu.turns %h, %x, [[I]], [[K]] {function = "main.turn", turns = #glow.sizes<[n]>
    // CHECK-SAME: -> (tensor<4xf32>, tensor<[n]x4xf32>)
    %last, %same, %y = "glow.loop"(%n, %h, %k, %room) <{operandSegmentSizes = array<i32: 1, 0, 3>}> ({
    ^bb0(%i: tensor<i64>, %now: tensor<4xf32>, %s: tensor<4xf32>, %rows: tensor<[n]x4xf32>):
      %row = glow.gather %x, %i : (tensor<[n]x4xf32>, tensor<i64>) -> tensor<4xf32>
      %e = glow.exp %k : (tensor<4xf32>) -> tensor<4xf32>
      %r = glow.cast %i : (tensor<i64>) -> tensor<f32>
      %p = glow.mul %now, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %q = glow.add %p, %row : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %t = glow.mul %q, %r : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %place = glow.reshape %i : (tensor<i64>) -> tensor<1x1xi64>
      %new = glow.reshape %t : (tensor<4xf32>) -> tensor<1x4xf32>
      %all = glow.scatter_nd %rows, %place, %new : (tensor<[n]x4xf32>, tensor<1x1xi64>, tensor<1x4xf32>) -> tensor<[n]x4xf32>
      %on = glow.get @on : tensor<i1>
      glow.yield %on, %q, %s, %all : tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<[n]x4xf32>
    }) : (tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<[n]x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<[n]x4xf32>)
    glow.save %last to @last : tensor<4xf32>
    // CHECK: glow.save %k to @same
    glow.save %same to @same : tensor<4xf32>
    glow.save %y to @y : tensor<[n]x4xf32>
  }
  // CHECK-LABEL: glow.func @main.turn {
  // CHECK-DAG: glow.get @main.turn.in0
  // CHECK-DAG: glow.get @main.turn.in1
  // CHECK-DAG: glow.get @main.turn.in2
  // CHECK-DAG: glow.get @main.turn.in3
  // CHECK-NOT: glow.gather
  // CHECK-NOT: glow.scatter_nd
  // CHECK: glow.save {{%.*}} to @main.turn.out0
  // CHECK: glow.save {{%.*}} to @main.turn.out1
}

// -----

// What data end stays as it is.
glow.placeholder @h input : tensor<4xf32>
glow.placeholder @last output : tensor<4xf32>
// CHECK-LABEL: glow.func @search
// CHECK: "glow.loop"
glow.func @search {
  %h = glow.get @h : tensor<4xf32>
  %n = glow.splat {value = 40.0 : f64} : () -> tensor<i64>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<f32>
  %last = "glow.loop"(%n, %h) <{operandSegmentSizes = array<i32: 1, 0, 1>}> ({
  ^bb0(%i: tensor<i64>, %now: tensor<4xf32>):
    %new = glow.exp %now : (tensor<4xf32>) -> tensor<4xf32>
    %sum = glow.reduce_sum %new {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    %on = glow.cmp_lt %sum, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    glow.yield %on, %new : tensor<i1>, tensor<4xf32>
  }) : (tensor<i64>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %last to @last : tensor<4xf32>
}
