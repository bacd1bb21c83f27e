// RUN: glow-opt %s -p 'glow-simplify{only=reshapes}' | filecheck %s

glow.placeholder @x input : tensor<6x4xf32>
glow.placeholder @r input : tensor<2x3x4xf32>
glow.placeholder @y output : tensor<2x3x4xf32>
glow.placeholder @z output : tensor<6x4xf32>

// CHECK-LABEL: glow.func @merged
glow.func @merged {
  %x = glow.get @x : tensor<6x4xf32>
  // CHECK: [[r:%.*]] = glow.reshape %x : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: glow.save [[r]]
  %a = glow.reshape %x : (tensor<6x4xf32>) -> tensor<24xf32>
  %b = glow.reshape %a : (tensor<24xf32>) -> tensor<2x3x4xf32>
  glow.save %b to @y : tensor<2x3x4xf32>
}

// The addition and the activation come to the tensor that was computed, in its own shape.
// CHECK-LABEL: glow.func @sunk
glow.func @sunk {
  %x = glow.get @x : tensor<6x4xf32>
  %r = glow.get @r : tensor<2x3x4xf32>
  // CHECK: [[e:%.*]] = glow.exp %x
  %e = glow.exp %x : (tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK-NEXT: [[r:%.*]] = glow.reshape %r : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  // CHECK-NEXT: [[a:%.*]] = glow.add [[e]], [[r]]
  // CHECK-NEXT: [[b:%.*]] = glow.relu [[a]]
  // CHECK-NEXT: glow.reshape [[b]]
  %a = glow.reshape %e : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %b = glow.add %a, %r : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %c = glow.relu %b : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  glow.save %c to @y : tensor<2x3x4xf32>
}

// A second reader needs the reshaped tensor anyway.
// CHECK-LABEL: glow.func @keeps_shared
glow.func @keeps_shared {
  %x = glow.get @x : tensor<6x4xf32>
  // CHECK: glow.exp
  // CHECK-NEXT: glow.reshape
  // CHECK-NEXT: glow.relu
  %e = glow.exp %x : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %a = glow.reshape %e : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %b = glow.relu %a : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  glow.save %b to @y : tensor<2x3x4xf32>
  glow.save %a to @y : tensor<2x3x4xf32>
}

// Values that are known are reshaped, not what was computed: the two would chase each other.
// CHECK-LABEL: glow.func @known_beside_reshaped
glow.func @known_beside_reshaped {
  %x = glow.get @x : tensor<6x4xf32>
  // CHECK: [[one:%.*]] = glow.reshape {{.*}} -> tensor<6x4xf32>
  // CHECK-NEXT: [[sum:%.*]] = glow.add [[one]], {{.*}} -> tensor<6x4xf32>
  // CHECK-NEXT: glow.reshape [[sum]] : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<2x3x4xf32>
  %n = glow.neg %x : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %a = glow.reshape %n : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %b = glow.add %one, %a : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  glow.save %b to @y : tensor<2x3x4xf32>
}
