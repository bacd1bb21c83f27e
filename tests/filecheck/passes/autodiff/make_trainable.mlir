// RUN: glow-opt %s --split-input-file -p 'glow-make-trainable{names="w*"}' | filecheck %s

// CHECK:      glow.placeholder @w1 trainable {init = #glow.resource<"w1">} : tensor<1xf32>
// CHECK-NEXT: glow.constant @v1 =
// CHECK-NEXT: glow.constant @w2 = {{.*}} : tensor<1xi64>
glow.constant @w1 = dense<1.0> : tensor<1xf32>
glow.constant @v1 = dense<2.0> : tensor<1xf32>
glow.constant @w2 = dense<3> : tensor<1xi64>

// -----

// Running statistics are state, not parameters.
// CHECK:      glow.placeholder @w_scale trainable
// CHECK-NEXT: glow.placeholder @w_mean state
glow.constant @w_scale = dense<1.0> : tensor<2xf32>
glow.constant @w_mean = dense<0.0> : tensor<2xf32>
glow.placeholder @x input : tensor<3x2xf32>
glow.placeholder @y output : tensor<3x2xf32>
glow.func @main {
  %x = glow.get @x : tensor<3x2xf32>
  %s = glow.get @w_scale : tensor<2xf32>
  %m = glow.get @w_mean : tensor<2xf32>
  %y = glow.batch_norm %x, %s, %s, %m, %m : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}
