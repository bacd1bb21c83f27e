// RUN: glow-opt %s --split-input-file --verify-diagnostics -p "glow-partition{memory=512}" | filecheck %s
// RUN: not glow-opt %s --split-input-file --verify-diagnostics -p "glow-partition{count=2 split=false}" | filecheck %s --check-prefix PLAN
// RUN: not glow-opt %s --split-input-file --verify-diagnostics -p "glow-partition{memory=512 devices=1}" | filecheck %s --check-prefix ONE

glow.placeholder @x input : tensor<4x8xf32>
glow.constant @w0 = dense<1.0> : tensor<8x8xf32>
glow.constant @w1 = dense<2.0> : tensor<8x8xf32>
glow.constant @w2 = dense<3.0> : tensor<8x8xf32>
glow.placeholder @y output : tensor<4x8xf32>

// 256 bytes a constant: two partitions. A value is saved where it is computed, a splat copied where it is read.
// CHECK: glow.placeholder @[[T:.*]] transfer : tensor<4x8xf32>
// CHECK-LABEL: glow.func @main_0 attributes {partition = 0 : i64}
// CHECK: [[A:%.*]] = glow.matmul {{.*}}, %w0
// CHECK: glow.splat
// CHECK: [[V:%.*]] = glow.matmul {{.*}}, %w1
// CHECK: glow.save [[V]] to @[[T]]
// CHECK-LABEL: glow.func @main_1 attributes {partition = 1 : i64}
// CHECK: [[R:%.*]] = glow.get @[[T]] : tensor<4x8xf32>
// CHECK: glow.matmul [[R]], %w2
// CHECK: glow.splat
// CHECK: glow.save {{.*}} to @y

// The plan as attributes of nodes.
// PLAN-LABEL: glow.func @main {
// PLAN: glow.matmul {{.*}} {partition = 0 : i64}
// PLAN: glow.matmul {{.*}} {partition = 1 : i64}
// PLAN: glow.save {{.*}} {partition = 1 : i64}

// ONE: 768 bytes of constants do not fit: the devices have a device 512; add devices or memory
glow.func @main {
  %x = glow.get @x : tensor<4x8xf32>
  %w0 = glow.get @w0 : tensor<8x8xf32>
  %w1 = glow.get @w1 : tensor<8x8xf32>
  %w2 = glow.get @w2 : tensor<8x8xf32>
  %s = glow.splat {value = 1.0 : f32} : () -> tensor<4x8xf32>
  %a = glow.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = glow.add %a, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = glow.matmul %b, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d = glow.matmul %c, %w2 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %e = glow.add %d, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  glow.save %e to @y : tensor<4x8xf32>
}

// -----

// expected-error@unknown {{node 'big' (glow.matmul) has 1024 bytes of constants, the largest device has 512}}
// A node whose constants no partition has room for.
// CHECK: error: node 'big' (glow.matmul) has 1024 bytes of constants, the largest device has 512
glow.placeholder @x input : tensor<4x16xf32>
glow.constant @w = dense<1.0> : tensor<16x16xf32>
glow.placeholder @y output : tensor<4x16xf32>
glow.func @main {
  %x = glow.get @x : tensor<4x16xf32>
  %w = glow.get @w : tensor<16x16xf32>
  %big = glow.matmul %x, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  glow.save %big to @y : tensor<4x16xf32>
}

// -----

// The program's own plan: nodes that it does not name go with what they read; functions come in an order that runs.
// CHECK-LABEL: glow.func @main_0 attributes {partition = 7 : i64}
// CHECK: glow.relu
// CHECK: glow.save {{.*}} to @main.a
// CHECK-LABEL: glow.func @main_1 attributes {partition = 3 : i64}
// CHECK: glow.get @main.a
// CHECK: glow.tanh
// CHECK: glow.save {{.*}} to @y
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.relu %x {partition = 7} : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.tanh %a {partition = 3} : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %b to @y : tensor<4xf32>
}

// -----

// expected-error@unknown {{partitions 0 -> 1 -> 0 form a circle: node 'a' (glow.relu) of partition 0 feeds 'b' (glow.}}
// A plan whose partitions wait for each other.
// CHECK: error: partitions 0 -> 1 -> 0 form a circle: node 'a' (glow.relu) of partition 0 feeds 'b' (glow.tanh) of 1; node 'b' (glow.tanh) of partition 1 feeds 'c' (glow.sigmoid) of 0
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %a = glow.relu %x {partition = 0} : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.tanh %a {partition = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %c = glow.sigmoid %b {partition = 0} : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %c to @y : tensor<4xf32>
}

// -----

// What updates a state stays together: it reads the value of before.
// CHECK-LABEL: glow.func @main_0
// CHECK: glow.save {{.*}} to @s
// PLAN: error: 2 partitions: the nodes of the network that can be parted are 1
glow.placeholder @x input : tensor<64xf32>
glow.placeholder @s state : tensor<64xf32>
glow.func @main {
  %x = glow.get @x : tensor<64xf32>
  %s = glow.get @s : tensor<64xf32>
  %a = glow.add %s, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  glow.save %a to @s : tensor<64xf32>
}

// -----

// A table that no partition has room for: each has some rows, and an index of others looks up any of its own.
// CHECK: glow.constant @table_8
// CHECK: glow.constant @table_0
// CHECK-NOT: glow.constant @table =
// CHECK-LABEL: glow.func @main_0
// CHECK: [[D:%.*]] = glow.sub %i
// CHECK: [[L:%.*]] = glow.select {{%.*}}, {{%.*}}, [[D]]
// CHECK: [[M:%.*]] = glow.max [[L]]
// CHECK: [[N:%.*]] = glow.min [[M]]
// CHECK: [[T:%.*]] = glow.get @table_8
// CHECK: glow.gather [[T]], [[N]]
// CHECK-LABEL: glow.func @main_1
// CHECK: [[U:%.*]] = glow.get @table_0
// CHECK: glow.gather [[U]]
// CHECK: glow.select
glow.placeholder @i input : tensor<4xi64>
glow.constant @table = dense<1.0> : tensor<16x16xf32>
glow.placeholder @y output : tensor<4x16xf32>
glow.func @main {
  %i = glow.get @i : tensor<4xi64>
  %table = glow.get @table : tensor<16x16xf32>
  %rows = glow.gather %table, %i {axis = 0 : i64} : (tensor<16x16xf32>, tensor<4xi64>) -> tensor<4x16xf32>
  glow.save %rows to @y : tensor<4x16xf32>
}
