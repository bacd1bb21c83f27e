// RUN: glow-opt %s -p glow-irgen | filecheck %s

glow.constant @w = dense<[1.0, 2.0]> : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @out output : tensor<2xf32>
glow.placeholder @counter state : tensor<2xf32>

// A node is one instruction; constants and placeholders are declared; a buffer dies at its last use.
// CHECK-LABEL: glow_instr.func @main declare {
// CHECK-NEXT:    [[X:%.*]] = glow_instr.weight @x mutable : memref<2xf32>
// CHECK-NEXT:    [[W:%.*]] = glow_instr.weight @w constant : memref<2xf32>
// CHECK-NEXT:    [[OUT:%.*]] = glow_instr.weight @out mutable : memref<2xf32>
// CHECK-NEXT:  } program {
// CHECK-NEXT:    [[S:%.*]] = glow_instr.alloc : memref<2xf32>
// CHECK-NEXT:    glow_instr.add @out [[S]], @in [[X]], @in [[W]]
// CHECK-NEXT:    [[R:%.*]] = glow_instr.alloc : memref<2xf32>
// CHECK-NEXT:    glow_instr.relu @out [[R]], @in [[S]]
// CHECK-NEXT:    glow_instr.dealloc @out [[S]]
// CHECK-NEXT:    glow_instr.copy @out [[OUT]], @in [[R]]
// CHECK-NEXT:    glow_instr.dealloc @out [[R]]
// CHECK-NEXT:  }
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %w = glow.get @w : tensor<2xf32>
  %s = glow.add %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = glow.relu %s : (tensor<2xf32>) -> tensor<2xf32>
  glow.save %y to @out : tensor<2xf32>
}

// Functions share what they declare.
// CHECK-LABEL: glow_instr.func @step
// CHECK:         [[C:%.*]] = glow_instr.weight @counter mutable
// CHECK:         glow_instr.copy @out [[C]]
glow.func @step {
  %c = glow.get @counter : tensor<2xf32>
  %w = glow.get @w : tensor<2xf32>
  %s = glow.add %c, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %s to @counter : tensor<2xf32>
}
