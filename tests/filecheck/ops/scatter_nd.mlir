// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The result has the type of the data.

glow.placeholder @d input : tensor<5x3xf32>
glow.placeholder @i input : tensor<4x1xi64>
glow.placeholder @u input : tensor<4x3xf32>
glow.func @scatter_nd {
  %d = glow.get @d : tensor<5x3xf32>
  %i = glow.get @i : tensor<4x1xi64>
  %u = glow.get @u : tensor<4x3xf32>
  // CHECK: = glow.scatter_nd %d, %i, %u : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %r0 = glow.scatter_nd %d, %i, %u : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<5x3xf32>
  // CHECK: = glow.scatter_nd %d, %i, %u {reduction = "add"} : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %r1 = glow.scatter_nd %d, %i, %u {reduction = "add"} : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<5x3xf32>
}

// -----

// expected-error@unknown {{glow.scatter_nd: updates are tensor<4x2xf32>, the indices need tensor<4x3xf32>}}
// CHECK: glow.scatter_nd: updates are tensor<4x2xf32>, the indices need tensor<4x3xf32>
glow.placeholder @d input : tensor<5x3xf32>
glow.placeholder @i input : tensor<4x1xi64>
glow.placeholder @u input : tensor<4x2xf32>
glow.func @error0 {
  %d = glow.get @d : tensor<5x3xf32>
  %i = glow.get @i : tensor<4x1xi64>
  %u = glow.get @u : tensor<4x2xf32>
  %r0 = glow.scatter_nd %d, %i, %u : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x2xf32>) -> tensor<5x3xf32>
}

// -----

// expected-error@unknown {{glow.scatter_nd: tensor<4x2xi64> does not index tensor<5xf32>}}
// CHECK: glow.scatter_nd: tensor<4x2xi64> does not index tensor<5xf32>
glow.placeholder @d input : tensor<5xf32>
glow.placeholder @i input : tensor<4x2xi64>
glow.placeholder @u input : tensor<4xf32>
glow.func @error1 {
  %d = glow.get @d : tensor<5xf32>
  %i = glow.get @i : tensor<4x2xi64>
  %u = glow.get @u : tensor<4xf32>
  %r0 = glow.scatter_nd %d, %i, %u : (tensor<5xf32>, tensor<4x2xi64>, tensor<4xf32>) -> tensor<5xf32>
}

// -----

// expected-error@unknown {{glow.scatter_nd: reduction is 'sum', not one of none, add, mul, max, min}}
// CHECK: glow.scatter_nd: reduction is 'sum', not one of none, add, mul, max, min
glow.placeholder @d input : tensor<5x3xf32>
glow.placeholder @i input : tensor<4x1xi64>
glow.placeholder @u input : tensor<4x3xf32>
glow.func @error2 {
  %d = glow.get @d : tensor<5x3xf32>
  %i = glow.get @i : tensor<4x1xi64>
  %u = glow.get @u : tensor<4x3xf32>
  %r0 = glow.scatter_nd %d, %i, %u {reduction = "sum"} : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<5x3xf32>
}
