// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.constant @w = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
glow.placeholder @x input : tensor<2x2xf32>
glow.placeholder @filter trainable : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// Everything of the instruction level parses, prints and parses again, in both forms.
// CHECK-LABEL: glow_instr.func @main attributes {arena = 64 : i64} declare {
// CHECK-NEXT:    [[X:%.*]] = glow_instr.weight @x mutable : memref<2x2xf32>
// CHECK-NEXT:    [[W:%.*]] = glow_instr.weight @w constant : memref<4xf32>
// CHECK-NEXT:    [[F:%.*]] = glow_instr.weight @filter mutable, xavier 4.000000e+00 : f32 : memref<4xf32>
// CHECK-NEXT:    [[Y:%.*]] = glow_instr.weight @y mutable, broadcast 1.000000e-01 : f32 : memref<4xf32>
// CHECK-NEXT:  } program {
// CHECK-NEXT:    [[V:%.*]] = glow_instr.tensorview [[X]] : memref<2x2xf32> to memref<4xf32>
// CHECK-NEXT:    [[H:%.*]] = glow_instr.tensorview [[W]] offset 2 : memref<4xf32> to memref<2xf32>
// CHECK-NEXT:    [[A:%.*]] = glow_instr.alloc at 0 : memref<4xf32>
// CHECK-NEXT:    glow_instr.add @out [[A]], @in [[V]], @in [[F]] : memref<4xf32>, memref<4xf32>, memref<4xf32>
// CHECK-NEXT:    glow_instr.copy @out [[Y]], @in [[A]] : memref<4xf32>, memref<4xf32>
// CHECK-NEXT:    glow_instr.dealloc @out [[A]] : memref<4xf32>
// CHECK-NEXT:  }
glow_instr.func @main attributes {arena = 64 : i64} declare {
  %x = glow_instr.weight @x mutable : memref<2x2xf32>
  %w = glow_instr.weight @w constant : memref<4xf32>
  %f = glow_instr.weight @filter mutable, xavier 4.0 : f32 : memref<4xf32>
  %y = glow_instr.weight @y mutable, broadcast 0.1 : f32 : memref<4xf32>
} program {
  %v = glow_instr.tensorview %x : memref<2x2xf32> to memref<4xf32>
  %h = glow_instr.tensorview %w offset 2 : memref<4xf32> to memref<2xf32>
  %a = glow_instr.alloc at 0 : memref<4xf32>
  glow_instr.add @out %a, @in %v, @in %f : memref<4xf32>, memref<4xf32>, memref<4xf32>
  glow_instr.copy @out %y, @in %a : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %a : memref<4xf32>
}
