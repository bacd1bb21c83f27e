// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// An index for each element of the result.

glow.placeholder @d input : tensor<3x4xf32>
glow.placeholder @i input : tensor<3x2xi64>
glow.func @gather_elements {
  %d = glow.get @d : tensor<3x4xf32>
  %i = glow.get @i : tensor<3x2xi64>
  // CHECK: = glow.gather_elements %d, %i {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
  %r0 = glow.gather_elements %d, %i {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
}

// -----

// expected-error@unknown {{glow.gather_elements: indices tensor<5x2xi64> do not fit tensor<3x4xf32> outside axis 1}}
// CHECK: glow.gather_elements: indices tensor<5x2xi64> do not fit tensor<3x4xf32> outside axis 1
glow.placeholder @d input : tensor<3x4xf32>
glow.placeholder @i input : tensor<5x2xi64>
glow.func @error0 {
  %d = glow.get @d : tensor<3x4xf32>
  %i = glow.get @i : tensor<5x2xi64>
  %r0 = glow.gather_elements %d, %i {axis = 1 : i64} : (tensor<3x4xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
}

// -----

// expected-error@unknown {{glow.gather_elements: indices must be integers, got tensor<3xf32>}}
// CHECK: glow.gather_elements: indices must be integers
glow.placeholder @d input : tensor<3xf32>
glow.func @error1 {
  %d = glow.get @d : tensor<3xf32>
  %r0 = glow.gather_elements %d, %d : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
}
