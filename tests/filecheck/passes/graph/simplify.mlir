// RUN: glow-opt %s -p glow-simplify | filecheck %s
// RUN: glow-opt %s -p 'glow-simplify{recognize=true}' | filecheck %s --check-prefix RECOGNIZE
// RUN: not glow-opt %s -p 'glow-simplify{only=algebra,magic}' 2>&1 | filecheck %s --check-prefix FAMILY

// FAMILY: error: no patterns 'magic'; there are: activations, algebra,

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// Rules of different families feed each other: fold 2 - 2, drop x + 0, keep the max.
// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %two = glow.splat {value = 2.0 : f64} : () -> tensor<f32>
  %zero = glow.sub %two, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %a = glow.add %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: glow.max %x
  // RECOGNIZE: glow.relu %x
  %b = glow.max %zero, %a : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %b to @y : tensor<4xf32>
}
