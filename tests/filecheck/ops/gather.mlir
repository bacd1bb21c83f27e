// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The axes of the indices replace an axis of the data.

glow.placeholder @d input : tensor<2x5x3xf32>
glow.placeholder @i input : tensor<2x2xi64>
glow.placeholder @j input : tensor<i32>
glow.func @gather {
  %d = glow.get @d : tensor<2x5x3xf32>
  %i = glow.get @i : tensor<2x2xi64>
  %j = glow.get @j : tensor<i32>
  // CHECK: = glow.gather %d, %i {axis = 1 : i64} : (tensor<2x5x3xf32>, tensor<2x2xi64>) -> tensor<2x2x2x3xf32>
  %r0 = glow.gather %d, %i {axis = 1 : i64} : (tensor<2x5x3xf32>, tensor<2x2xi64>) -> tensor<2x2x2x3xf32>
  // CHECK: = glow.gather %d, %j : (tensor<2x5x3xf32>, tensor<i32>) -> tensor<5x3xf32>
  %r1 = glow.gather %d, %j : (tensor<2x5x3xf32>, tensor<i32>) -> tensor<5x3xf32>
  // CHECK: = glow.gather %d, %j {checked = "Gather 'row'"} : (tensor<2x5x3xf32>, tensor<i32>) -> tensor<5x3xf32>
  %r2 = glow.gather %d, %j {checked = "Gather 'row'"} : (tensor<2x5x3xf32>, tensor<i32>) -> tensor<5x3xf32>
}

// -----

// expected-error@unknown {{glow.gather: axis 3 is outside a tensor of rank 3}}
// CHECK: glow.gather: axis 3 is outside a tensor of rank 3
glow.placeholder @d input : tensor<2x5x3xf32>
glow.placeholder @i input : tensor<2xi64>
glow.func @error0 {
  %d = glow.get @d : tensor<2x5x3xf32>
  %i = glow.get @i : tensor<2xi64>
  %r0 = glow.gather %d, %i {axis = 3 : i64} : (tensor<2x5x3xf32>, tensor<2xi64>) -> tensor<2x5x3xf32>
}

// -----

// expected-error@unknown {{glow.gather: indices must be integers, got tensor<2x5xf32>}}
// CHECK: glow.gather: indices must be integers, got tensor<2x5xf32>
glow.placeholder @d input : tensor<2x5xf32>
glow.func @error1 {
  %d = glow.get @d : tensor<2x5xf32>
  %r0 = glow.gather %d, %d : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5x5xf32>
}
