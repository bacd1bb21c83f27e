// RUN: glow-opt %s -p 'glow-simplify{only=algebra}' | filecheck %s

glow.placeholder @signs input : tensor<2x2xf32>
glow.placeholder @other input : tensor<2x2xf32>
glow.placeholder @signed output : tensor<2x2xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @i input : tensor<2x3xi32>
glow.placeholder @y output : tensor<2x3xf32>
glow.placeholder @z output : tensor<2x3xi32>

// Constants move to the right, merge, and vanish where they are neutral.
// CHECK-LABEL: glow.func @constants
glow.func @constants {
  // CHECK: %x = glow.get @x
  %x = glow.get @x : tensor<2x3xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  %two = glow.splat {value = 2.0 : f64} : () -> tensor<f32>
  %a = glow.add %one, %x : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = glow.add %a, %two : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %c = glow.mul %b, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK-NEXT: [[three:%.*]] = glow.splat {value = 3.000000e+00 : f64}
  // CHECK-NEXT: [[sum:%.*]] = glow.add %x, [[three]]
  // CHECK-NEXT: glow.save [[sum]] to @y
  glow.save %c to @y : tensor<2x3xf32>
}

// A neutral constant that broadcasts x to a larger shape stays.
// CHECK-LABEL: glow.func @keeps_broadcast
glow.func @keeps_broadcast {
  %x = glow.get @x : tensor<2x3xf32>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<4x2x3xf32>
  // CHECK: glow.add %x
  %a = glow.add %x, %zero : (tensor<2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  glow.save %a to @w : tensor<4x2x3xf32>
}
glow.placeholder @w output : tensor<4x2x3xf32>

// CHECK-LABEL: glow.func @powers_and_signs
glow.func @powers_and_signs {
  %x = glow.get @x : tensor<2x3xf32>
  %two = glow.splat {value = 2.0 : f64} : () -> tensor<f32>
  // CHECK: [[square:%.*]] = glow.mul %x, %x
  %a = glow.pow %x, %two : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = glow.neg %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: [[difference:%.*]] = glow.sub %x, [[square]]
  %c = glow.add %x, %b : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: glow.save [[difference]]
  glow.save %c to @y : tensor<2x3xf32>
}

// x * 0 is 0 for integers only: a float may be NaN.
// CHECK-LABEL: glow.func @integers
glow.func @integers {
  %x = glow.get @i : tensor<2x3xi32>
  %none = glow.splat {value = 0.0 : f64} : () -> tensor<i32>
  %a = glow.mul %x, %none : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
  // CHECK: [[zero:%.*]] = glow.splat {value = 0.000000e+00 : f64}
  // CHECK-NEXT: glow.save [[zero]] to @z
  glow.save %a to @z : tensor<2x3xi32>
}

// CHECK-LABEL: glow.func @keeps_floats
glow.func @keeps_floats {
  %x = glow.get @x : tensor<2x3xf32>
  %none = glow.splat {value = 0.0 : f64} : () -> tensor<f32>
  // CHECK: glow.mul %x
  %a = glow.mul %x, %none : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  glow.save %a to @y : tensor<2x3xf32>
}

// CHECK-LABEL: glow.func @no_limits
glow.func @no_limits {
  %x = glow.get @x : tensor<2x3xf32>
  %low = glow.splat {value = 0xFFF0000000000000 : f64} : () -> tensor<f32>
  %high = glow.splat {value = 0x7FF0000000000000 : f64} : () -> tensor<f32>
  // CHECK-NEXT: %x = glow.get
  // CHECK-NOT: glow.m
  // CHECK: glow.save %x
  %a = glow.max %low, %x : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = glow.min %a, %high : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  glow.save %b to @y : tensor<2x3xf32>
}

// CHECK-LABEL: glow.func @zeros
glow.func @zeros {
  %v = glow.get @signs : tensor<2x2xf32>
  %z = glow.splat {value = 0.000000e+00 : f64} : () -> tensor<2x2xf32>
  // CHECK-NEXT: %v = glow.get @signs
  // CHECK-NEXT: glow.save %v
  %a = glow.add %v, %z : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = glow.sub %a, %z : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  glow.save %b to @signed : tensor<2x2xf32>
}

// CHECK-LABEL: glow.func @differences
glow.func @differences {
  %v = glow.get @signs : tensor<2x2xf32>
  %c = glow.get @other : tensor<2x2xf32>
  %t = glow.splat {value = 3.000000e+00 : f64} : () -> tensor<2x2xf32>
  // A constant that is subtracted is added negated.
  // CHECK: [[t:%.*]] = glow.splat {value = -3.000000e+00 : f64}
  // CHECK-NEXT: [[a:%.*]] = glow.add %v, [[t]]
  %a = glow.sub %v, %t : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: [[b:%.*]] = glow.add [[a]], %c
  %n = glow.neg %c : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = glow.sub %a, %n : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: [[r:%.*]] = glow.relu [[b]]
  // CHECK-NEXT: glow.save [[r]]
  %r = glow.relu %b : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %m = glow.neg %r : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %o = glow.neg %m : (tensor<2x2xf32>) -> tensor<2x2xf32>
  glow.save %o to @signed : tensor<2x2xf32>
}

// x + 12582912 rounds x to a whole number: what follows does not undo that.
// CHECK-LABEL: glow.func @rounding_by_a_sum
glow.func @rounding_by_a_sum {
  %x = glow.get @x : tensor<2x3xf32>
  %many = glow.splat {value = 12582912.0 : f64} : () -> tensor<f32>
  // CHECK: [[sum:%.*]] = glow.add %x
  // CHECK: glow.add [[sum]]
  %a = glow.add %x, %many : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = glow.sub %a, %many : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  glow.save %b to @y : tensor<2x3xf32>
}

// A sum that is read elsewhere too is there to be added to.
// CHECK-LABEL: glow.func @keeps_shared
glow.func @keeps_shared {
  %x = glow.get @x : tensor<2x3xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  %two = glow.splat {value = 2.0 : f64} : () -> tensor<f32>
  // CHECK: [[a:%.*]] = glow.add %x
  // CHECK-NEXT: glow.add [[a]]
  %a = glow.add %x, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = glow.add %a, %two : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  glow.save %a to @v : tensor<2x3xf32>
  glow.save %b to @y : tensor<2x3xf32>
}
glow.placeholder @v output : tensor<2x3xf32>
