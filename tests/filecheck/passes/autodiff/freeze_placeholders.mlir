// RUN: glow-opt %s -p "glow-differentiate{optimizer=sgd lr=0.1 momentum=0.9},glow-freeze-placeholders" | filecheck %s

// Training leaves the module: its function, its states; weights become constants.
// CHECK-NOT:  velocity
// CHECK:      glow.constant @w = dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT: glow.placeholder @x input
// CHECK-NEXT: glow.placeholder @loss output
// CHECK-NEXT: glow.func @main {
// CHECK-NOT:  training
glow.placeholder @w trainable : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @loss output : tensor<2xf32>
glow.func @main {
  %w = glow.get @w : tensor<2xf32>
  %x = glow.get @x : tensor<2xf32>
  %y = glow.mul %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %y to @loss : tensor<2xf32>
}
