// RUN: not glow-opt %s -p glow-hide-latency{backend=cpu} 2>&1 | filecheck %s

// A backend that is to be scheduled for says what its instructions cost.
// CHECK: error: backend cpu does not say what glow_instr.relu costs
glow.placeholder @x state : tensor<4xf32>
glow_instr.func @main declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
} program {
  glow_instr.relu @out %x, @in %x : memref<4xf32>, memref<4xf32>
}
