// RUN: glow-opt %s -p glow-cpu-rows | filecheck %s

glow.placeholder @d input : tensor<5x4xf32>
glow.placeholder @u input : tensor<3x4xf32>
glow.placeholder @i input : tensor<3x1xi64>
glow.placeholder @e input : tensor<3x4xi64>
glow.placeholder @y output : tensor<5x4xf32>
glow.placeholder @z output : tensor<3x4xf32>

// One index a row, and arithmetic on it that was written for every element.
// CHECK-LABEL: glow.func @scatter
glow.func @scatter {
  %d = glow.get @d : tensor<5x4xf32>
  %u = glow.get @u : tensor<3x4xf32>
  %i = glow.get @i : tensor<3x1xi64>
  %e = glow.expand %i : (tensor<3x1xi64>) -> tensor<3x4xi64>
  %five = glow.splat {value = 5.0 : f64} : () -> tensor<i64>
  // CHECK: [[S:%.*]] = glow.sub %i, %five : (tensor<3x1xi64>, tensor<i64>) -> tensor<3x1xi64>
  // CHECK: glow.scatter_nd %d, {{%.*}}, %u {reduction = "add"} : (tensor<5x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>) -> tensor<5x4xf32>
  %s = glow.sub %e, %five : (tensor<3x4xi64>, tensor<i64>) -> tensor<3x4xi64>
  %y = glow.scatter_elements %d, %s, %u {reduction = "add"} : (tensor<5x4xf32>, tensor<3x4xi64>, tensor<3x4xf32>) -> tensor<5x4xf32>
  glow.save %y to @y : tensor<5x4xf32>
}

// CHECK-LABEL: glow.func @gather
glow.func @gather {
  %d = glow.get @d : tensor<5x4xf32>
  %i = glow.get @i : tensor<3x1xi64>
  %e = glow.expand %i : (tensor<3x1xi64>) -> tensor<3x4xi64>
  // CHECK: glow.gather %d, {{%.*}} : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %y = glow.gather_elements %d, %e : (tensor<5x4xf32>, tensor<3x4xi64>) -> tensor<3x4xf32>
  glow.save %y to @z : tensor<3x4xf32>
}

// Indices that differ along a row.
// CHECK-LABEL: glow.func @elements
glow.func @elements {
  %d = glow.get @d : tensor<5x4xf32>
  %e = glow.get @e : tensor<3x4xi64>
  // CHECK: glow.gather_elements
  %y = glow.gather_elements %d, %e : (tensor<5x4xf32>, tensor<3x4xi64>) -> tensor<3x4xf32>
  glow.save %y to @z : tensor<3x4xf32>
}
