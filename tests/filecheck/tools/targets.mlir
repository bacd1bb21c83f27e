// RUN: glow-opt %s -t dot | filecheck %s --check-prefix DOT
// RUN: glow-opt %s -p 'glow-schedule,glow-irgen' -t glow-ir | filecheck %s --check-prefix IR
// RUN: glow-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: glow-opt %s --print-op-generic | glow-opt - | filecheck %s --check-prefix AGAIN

glow.constant @w = dense<[1.0, -2.0]> : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @out output : tensor<2xf32>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %w = glow.get @w : tensor<2xf32>
  %c = glow.cmp_lt %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %s = glow.select %c, %x, %w : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = glow.relu %s : (tensor<2xf32>) -> tensor<2xf32>
  glow.save %y to @out : tensor<2xf32>
}

// DOT:      digraph glow {
// DOT:        subgraph cluster_0 {
// DOT-NEXT:     label="main";
// DOT:          [[X:n0_[0-9]+]] [label="{get|symbol : @x|output : 2xf32}", fillcolor=lightblue];
// DOT-NEXT:     [[W:n0_[0-9]+]] [label="{get|symbol : @w|output : 2xf32}", fillcolor=lightgrey];
// DOT-NEXT:     [[C:n0_[0-9]+]] [label="{cmp_lt|output : 2xi1}", fillcolor=white];
// DOT-NEXT:     [[X]] -> [[C]] [label="2xf32"];
// DOT-NEXT:     [[W]] -> [[C]] [label="2xf32"];
// DOT:          [[R:n0_[0-9]+]] [label="{relu|output : 2xf32}", fillcolor=white];
// DOT:          [[R]] -> [[S:n0_[0-9]+]] [label="2xf32"];

// IR:       function main
// IR-NEXT:  declare {
// IR-DAG:     %x = weight float<2>, mutable
// IR-DAG:     %w = weight float<2>, constant
// IR:       program {
// IR:         [[C:%[a-z0-9]+]] = alloc bool<2>
// IR-NEXT:    cmp_lt @out [[C]], @in %x, @in %w
// IR:         select @out [[S:%[a-z0-9]+]], @in [[C]], @in %x, @in %w
// IR:         dealloc @out [[C]]
// IR:         copy @out %out, @in

// GENERIC: "builtin.module"() ({
// GENERIC: "glow.placeholder"() <{sym_name = "x", kind = "input", type = tensor<2xf32>}>
// GENERIC: "glow.relu"(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>

// AGAIN: glow.relu %{{.*}} : (tensor<2xf32>) -> tensor<2xf32>
