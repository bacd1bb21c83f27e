// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics -p glow-irgen | filecheck %s --check-prefix=INSTR

// At most 3 boxes of each of 2 classes.

// INSTR: glow_instr.non_max_suppression @out %{{.*}}, @out %{{.*}}, @in %{{.*}}, @in %{{.*}}, @in %{{.*}}, @in %{{.*}}, @in %{{.*}} {limit = 3 : i64} : memref<6x3xi64>, memref<i64>,
glow.placeholder @boxes input : tensor<1x9x4xf32>
glow.placeholder @scores input : tensor<1x2x9xf32>
glow.placeholder @most input : tensor<i64>
glow.placeholder @overlap input : tensor<f32>
glow.func @non_max_suppression {
  %boxes = glow.get @boxes : tensor<1x9x4xf32>
  %scores = glow.get @scores : tensor<1x2x9xf32>
  %most = glow.get @most : tensor<i64>
  %overlap = glow.get @overlap : tensor<f32>
  // CHECK: = glow.non_max_suppression %boxes, %scores, %most, %most, %overlap {limit = 3 : i64} : (tensor<1x9x4xf32>, tensor<1x2x9xf32>, tensor<i64>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
  %kept, %count = glow.non_max_suppression %boxes, %scores, %most, %most, %overlap {limit = 3 : i64} : (tensor<1x9x4xf32>, tensor<1x2x9xf32>, tensor<i64>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
}

// -----

// expected-error@unknown {{glow.non_max_suppression: boxes (1, 9, 4) and scores (1, 2, 8) do not match}}
// CHECK: glow.non_max_suppression: boxes (1, 9, 4) and scores (1, 2, 8) do not match
glow.placeholder @boxes input : tensor<1x9x4xf32>
glow.placeholder @scores input : tensor<1x2x8xf32>
glow.placeholder @one input : tensor<f32>
glow.placeholder @most input : tensor<i64>
glow.func @error {
  %boxes = glow.get @boxes : tensor<1x9x4xf32>
  %scores = glow.get @scores : tensor<1x2x8xf32>
  %most = glow.get @most : tensor<i64>
  %one = glow.get @one : tensor<f32>
  %kept, %count = glow.non_max_suppression %boxes, %scores, %most, %most, %one {limit = 3 : i64} : (tensor<1x9x4xf32>, tensor<1x2x8xf32>, tensor<i64>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
}
