// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The result has the type of the data.

glow.placeholder @d input : tensor<3x4xf32>
glow.placeholder @i input : tensor<3x2xi64>
glow.placeholder @u input : tensor<3x2xf32>
glow.func @scatter_elements {
  %d = glow.get @d : tensor<3x4xf32>
  %i = glow.get @i : tensor<3x2xi64>
  %u = glow.get @u : tensor<3x2xf32>
  // CHECK: = glow.scatter_elements %d, %i, %u {axis = 1 : i64, reduction = "max"} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %r0 = glow.scatter_elements %d, %i, %u {axis = 1 : i64, reduction = "max"} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x2xf32>) -> tensor<3x4xf32>
}

// -----

// expected-error@unknown {{glow.scatter_elements: updates tensor<3x1xf32> do not go with indices tensor<3x2xi64> and}}
// CHECK: glow.scatter_elements: updates tensor<3x1xf32> do not go with indices tensor<3x2xi64> and data tensor<3x4xf32>
glow.placeholder @d input : tensor<3x4xf32>
glow.placeholder @i input : tensor<3x2xi64>
glow.placeholder @u input : tensor<3x1xf32>
glow.func @error0 {
  %d = glow.get @d : tensor<3x4xf32>
  %i = glow.get @i : tensor<3x2xi64>
  %u = glow.get @u : tensor<3x1xf32>
  %r0 = glow.scatter_elements %d, %i, %u : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x1xf32>) -> tensor<3x4xf32>
}

// -----

// expected-error@unknown {{glow.scatter_elements: indices tensor<3x5xi64> do not fit tensor<3x4xf32> outside axis 0}}
// CHECK: glow.scatter_elements: indices tensor<3x5xi64> do not fit tensor<3x4xf32> outside axis 0
glow.placeholder @d input : tensor<3x4xf32>
glow.placeholder @i input : tensor<3x5xi64>
glow.placeholder @u input : tensor<3x5xf32>
glow.func @error1 {
  %d = glow.get @d : tensor<3x4xf32>
  %i = glow.get @i : tensor<3x5xi64>
  %u = glow.get @u : tensor<3x5xf32>
  %r0 = glow.scatter_elements %d, %i, %u : (tensor<3x4xf32>, tensor<3x5xi64>, tensor<3x5xf32>) -> tensor<3x4xf32>
}
