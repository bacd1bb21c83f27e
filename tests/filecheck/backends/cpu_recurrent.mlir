// RUN: glow-opt %s -p glow-cpu-recurrent | filecheck %s

glow.constant @w = dense<0.5> : tensor<1x8x3xf32>
glow.constant @r = dense<0.25> : tensor<1x8x2xf32>
glow.placeholder @x input : tensor<4x1x3xf32>
glow.placeholder @w2 input : tensor<1x8x3xf32>
glow.placeholder @y output : tensor<4x1x1x2xf32>

// One product for all four steps; the loop over time keeps what is recurrent.
// CHECK-LABEL: glow.func @constant_weights
glow.func @constant_weights {
  %x = glow.get @x : tensor<4x1x3xf32>
  %w = glow.get @w : tensor<1x8x3xf32>
  %r = glow.get @r : tensor<1x8x2xf32>
  // CHECK: [[FLAT:%.*]] = glow.reshape %x : (tensor<4x1x3xf32>) -> tensor<4x3xf32>
  // CHECK: [[P:%.*]] = glow.fully_connected [[FLAT]], {{.*}} -> tensor<4x8xf32>
  // CHECK: [[Q:%.*]] = glow.reshape [[P]] : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
  // CHECK: %y, %{{.*}}, %{{.*}} = glow_cpu.recurrent [[Q]], %r {kind = "lstm", activations = "sigmoid,tanh,tanh"
  %y, %h, %c = glow.lstm %x, %w, %r {activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<4x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  glow.save %y to @y : tensor<4x1x1x2xf32>
}

// Weights that change are not packed: they are for the loop of training.
// CHECK-LABEL: glow.func @changing_weights
glow.func @changing_weights {
  %x = glow.get @x : tensor<4x1x3xf32>
  %w = glow.get @w2 : tensor<1x8x3xf32>
  %r = glow.get @r : tensor<1x8x2xf32>
  // CHECK-NOT: glow_cpu.recurrent
  // CHECK: glow.recurrent_train {{.*}}kind = "lstm"
  %y, %h, %c = glow.lstm %x, %w, %r {activations = "sigmoid,tanh,tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x3xf32>, tensor<1x8x3xf32>, tensor<1x8x2xf32>) -> (tensor<4x1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>)
  glow.save %y to @y : tensor<4x1x1x2xf32>
}
