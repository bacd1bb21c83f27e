// RUN: glow-opt %s -p convert-glow-instr-to-llvm | filecheck %s
// RUN: glow-opt %s -p convert-glow-instr-to-llvm{threads=2} | filecheck %s --check-prefix THREADS

// Placeholders are loaded from the io table, buffers lie in the arena, constants and sizes in the weights.
// CHECK:      llvm.func @glow_main(%io: !llvm.ptr, %weights: !llvm.ptr, %arena: !llvm.ptr, %worker: i64)
// CHECK-DAG:    %[[SLOT:.*]] = llvm.getelementptr inbounds %io[0]
// CHECK-DAG:    %x = llvm.load %[[SLOT]]
// CHECK-DAG:    %[[AT:.*]] = llvm.getelementptr inbounds %arena[64]
// CHECK:        llvm.call @glow_elementwise_{{.*}}(%[[AT]], %x, %weights, %worker)
// CHECK:        llvm.call @glow_elementwise_{{.*}}(%y, %[[AT]], %weights, %worker)
// CHECK-NEXT:   llvm.return

// Workers wait for each other behind every kernel.
// THREADS:      llvm.call @glow_elementwise
// THREADS-NEXT: llvm.mlir.constant(3) : i64
// THREADS-NEXT: llvm.call @glow_barrier(%io, %{{.*}}) : (!llvm.ptr, i64) -> ()

glow.placeholder @x : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow_instr.func @main attributes {arena = 128 : i64} declare {
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
} program {
  %t = glow_instr.alloc at 64 : memref<4xf32>
  glow_instr.relu @out %t, @in %x : memref<4xf32>, memref<4xf32>
  glow_instr.relu @out %y, @in %t : memref<4xf32>, memref<4xf32>
  glow_instr.dealloc @out %t : memref<4xf32>
}
