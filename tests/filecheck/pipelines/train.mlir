// RUN: glow-opt %s -p "glow-differentiate{optimizer=sgd lr=0.1},glow-decompose{ops=sgd},glow-schedule,glow-irgen,glow-eliminate-copies" | filecheck %s

// A step from the graph to instructions: the weight is read by the forward pass and by its own
// update only, which writes it in place; every other reader comes first.
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @w trainable : tensor<3x3xf32>
glow.placeholder @loss output : tensor<2x3xf32>
glow.func @main {
  %x = glow.get @x : tensor<2x3xf32>
  %w = glow.get @w : tensor<3x3xf32>
  %h = glow.matmul %x, %w : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %y = glow.matmul %h, %w : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  glow.save %y to @loss : tensor<2x3xf32>
}

// CHECK-LABEL: glow_instr.func @main declare
// CHECK-LABEL: glow_instr.func @main_training declare
// CHECK-DAG:     [[X:%.*]] = glow_instr.weight @x mutable
// CHECK-DAG:     [[W:%.*]] = glow_instr.weight @w mutable
// CHECK-DAG:     [[L:%.*]] = glow_instr.weight @loss mutable
// CHECK:         program
// CHECK:         glow_instr.matmul @out {{%.*}}, @in [[X]], @in [[W]]
// CHECK:         glow_instr.add
// CHECK:         glow_instr.mul
// CHECK:         glow_instr.sub @out [[W]], @in [[W]], @in
// CHECK-NOT:     @in [[W]]
