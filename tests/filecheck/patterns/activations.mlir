// RUN: glow-opt %s -p 'glow-simplify{only=activations}' | filecheck %s

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @w input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// CHECK-LABEL: glow.func @swish
glow.func @swish {
  %x = glow.get @x : tensor<4xf32>
  // CHECK: glow.swish %x :
  %s = glow.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %a = glow.mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %a to @y : tensor<4xf32>
}

// x * sigmoid(w) is a gate, not a function of x.
// CHECK-LABEL: glow.func @keeps_gate
glow.func @keeps_gate {
  %x = glow.get @x : tensor<4xf32>
  %w = glow.get @w : tensor<4xf32>
  // CHECK: glow.sigmoid %w
  // CHECK-NEXT: glow.mul
  %s = glow.sigmoid %w : (tensor<4xf32>) -> tensor<4xf32>
  %a = glow.mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %a to @y : tensor<4xf32>
}

// CHECK-LABEL: glow.func @gelu
glow.func @gelu {
  %x = glow.get @x : tensor<4xf32>
  %c = glow.splat {value = 0.70710677 : f64} : () -> tensor<f32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  %half = glow.splat {value = 0.5 : f64} : () -> tensor<f32>
  // CHECK: glow.gelu %x :
  %a = glow.mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = glow.erf %a : (tensor<4xf32>) -> tensor<4xf32>
  %d = glow.add %b, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = glow.mul %x, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = glow.mul %e, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  glow.save %f to @y : tensor<4xf32>
}

// Another scale inside erf is another function.
// CHECK-LABEL: glow.func @keeps_other_scale
glow.func @keeps_other_scale {
  %x = glow.get @x : tensor<4xf32>
  %c = glow.splat {value = 0.75 : f64} : () -> tensor<f32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  %half = glow.splat {value = 0.5 : f64} : () -> tensor<f32>
  // CHECK-NOT: glow.gelu
  // CHECK: glow.erf
  %a = glow.mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = glow.erf %a : (tensor<4xf32>) -> tensor<4xf32>
  %d = glow.add %b, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = glow.mul %x, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = glow.mul %e, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  glow.save %f to @y : tensor<4xf32>
}
