// RUN: glow-opt %s -p 'glow-simplify{only=clips}' | filecheck %s

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// CHECK-LABEL: glow.func @min_max
glow.func @min_max {
  %x = glow.get @x : tensor<4xf32>
  %six = glow.splat {value = 6.0 : f64} : () -> tensor<f32>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<f32>
  // CHECK: [[clip:%.*]] = glow.clip %x {min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}
  %a = glow.max %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = glow.min %a, %six : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: glow.save [[clip]]
  glow.save %b to @y : tensor<4xf32>
}

// CHECK-LABEL: glow.func @merged
glow.func @merged {
  %x = glow.get @x : tensor<4xf32>
  // CHECK: [[clip:%.*]] = glow.clip %x {min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}
  %a = glow.clip %x {min = -1.0 : f64, max = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.relu %a : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: glow.save [[clip]]
  glow.save %b to @y : tensor<4xf32>
}

// CHECK-LABEL: glow.func @idle
glow.func @idle {
  %x = glow.get @x : tensor<4xf32>
  // CHECK: [[s:%.*]] = glow.sigmoid %x
  %a = glow.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = glow.clip %a {min = 0.0 : f64, max = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %c = glow.relu %b : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: glow.save [[s]]
  glow.save %c to @y : tensor<4xf32>
}

// One limit alone, not at zero, is cheapest as it is.
// CHECK-LABEL: glow.func @keeps_max
glow.func @keeps_max {
  %x = glow.get @x : tensor<4xf32>
  %one = glow.splat {value = 1.0 : f64} : () -> tensor<f32>
  // CHECK: glow.max
  %a = glow.max %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  glow.save %a to @y : tensor<4xf32>
}
