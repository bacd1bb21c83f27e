// RUN: glow-opt %s | filecheck %s
// RUN: glow-opt %s -p glow-irgen | filecheck %s --check-prefix=INSTR

// Places, and how many.

// INSTR: glow_instr.non_zero @out %{{.*}}, @out %{{.*}}, @in %{{.*}} : memref<2x6xi64>, memref<i64>, memref<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @non_zero {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.non_zero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
  %places, %count = glow.non_zero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
}
