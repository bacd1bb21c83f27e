// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Along one axis.

glow.placeholder @a0 input : tensor<3x5xf32>
glow.placeholder @a1 input : tensor<2x3x4xf32>
glow.placeholder @a2 input : tensor<3x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x5xf32>
  // CHECK: = glow.softmax %a0 {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %0 = glow.softmax %a0 {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %a1 = glow.get @a1 : tensor<2x3x4xf32>
  // CHECK: = glow.softmax %a1 {axis = 0 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = glow.softmax %a1 {axis = 0 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %a2 = glow.get @a2 : tensor<3x5xf32>
  // CHECK: = glow.log_softmax %a2 {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %2 = glow.log_softmax %a2 {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
}

// -----

// expected-error@unknown {{glow.softmax: axis 2 is outside a tensor of rank 2}}
// CHECK: axis 2 is outside a tensor of rank 2
glow.placeholder @a0 input : tensor<3x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x5xf32>
  %0 = glow.softmax %a0 {axis = 2 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
}

// -----

// An axis counts from the first: the message offers none that is refused.

// expected-error@unknown {{glow.softmax: axis -1 is outside a tensor of rank 2; its axes are 0 to 1}}
// CHECK: axis -1 is outside a tensor of rank 2; its axes are 0 to 1
glow.placeholder @a0 input : tensor<3x5xf32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<3x5xf32>
  %0 = glow.softmax %a0 {axis = -1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
}

// -----

// expected-error@unknown {{glow.softmax: axis 0 is outside a tensor of rank 0; it has no axes}}
// CHECK: axis 0 is outside a tensor of rank 0; it has no axes
glow.placeholder @a0 input : tensor<f32>
glow.func @main {
  %a0 = glow.get @a0 : tensor<f32>
  %0 = glow.softmax %a0 {axis = 0 : i64} : (tensor<f32>) -> tensor<f32>
}
