// RUN: glow-opt %s -p 'glow-simplify{only=selects}' | filecheck %s

glow.placeholder @c input : tensor<4xi1>
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.placeholder @z output : tensor<4xi1>

// CHECK-LABEL: glow.func @known
glow.func @known {
  %x = glow.get @x : tensor<4xf32>
  %true = glow.splat {value = 1.0 : f64} : () -> tensor<i1>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  %a = glow.select %true, %x, %one : (tensor<i1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: %x = glow.get @x
  // CHECK-NEXT: glow.save %x to @y
  glow.save %a to @y : tensor<4xf32>
}

// CHECK-LABEL: glow.func @negated
glow.func @negated {
  %x = glow.get @x : tensor<4xf32>
  %c = glow.get @c : tensor<4xi1>
  %n = glow.not %c : (tensor<4xi1>) -> tensor<4xi1>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK: [[one:%.*]] = glow.splat
  // CHECK-NEXT: glow.select %c, [[one]], %x
  %a = glow.select %n, %x, %one : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  glow.save %a to @y : tensor<4xf32>
}

// Every order with NaN is false, and so is its opposite.
// CHECK-LABEL: glow.func @keeps_order_of_floats
glow.func @keeps_order_of_floats {
  %x = glow.get @x : tensor<4xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK: glow.cmp_lt
  // CHECK-NEXT: glow.not
  %a = glow.cmp_lt %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %n = glow.not %a : (tensor<4xi1>) -> tensor<4xi1>
  glow.save %n to @z : tensor<4xi1>
}
