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

// CHECK-LABEL: glow.func @keeps_unknown
glow.func @keeps_unknown {
  %x = glow.get @x : tensor<4xf32>
  %c = glow.get @c : tensor<4xi1>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK: glow.select %c, %x
  %a = glow.select %c, %x, %one : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  glow.save %a to @y : tensor<4xf32>
}

// CHECK-LABEL: glow.func @logic
glow.func @logic {
  %c = glow.get @c : tensor<4xi1>
  %true = glow.splat {value = 1.0 : f64} : () -> tensor<i1>
  // CHECK-NEXT: %c = glow.get @c
  // CHECK-NEXT: glow.save %c to @z
  %a = glow.and %c, %true : (tensor<4xi1>, tensor<i1>) -> tensor<4xi1>
  glow.save %a to @z : tensor<4xi1>
}
