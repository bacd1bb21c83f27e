// The paper's example of node lowering: FullyConnected is a matrix product and a broadcast addition.
// RUN: glow-opt %s -p 'glow-decompose{ops=fully_connected}' | filecheck %s

// CHECK-LABEL: glow.func @main
// CHECK:         [[X:%.*]] = glow.get @x
// CHECK:         [[W:%.*]] = glow.get @w
// CHECK:         [[B:%.*]] = glow.get @b
// CHECK-NOT:     glow.fully_connected
// CHECK:         [[P:%.*]] = glow.matmul [[X]], [[W]] : (tensor<8x144xf32>, tensor<144x10xf32>) -> tensor<8x10xf32>
// CHECK-NEXT:    [[Y:%.*]] = glow.add [[P]], [[B]] : (tensor<8x10xf32>, tensor<10xf32>) -> tensor<8x10xf32>
// CHECK-NEXT:    glow.save [[Y]]
glow.placeholder @x input : tensor<8x144xf32>
glow.constant @w = dense<0.5> : tensor<144x10xf32>
glow.constant @b = dense<0.1> : tensor<10xf32>
glow.placeholder @y output : tensor<8x10xf32>
glow.func @main {
  %x = glow.get @x : tensor<8x144xf32>
  %w = glow.get @w : tensor<144x10xf32>
  %b = glow.get @b : tensor<10xf32>
  %y = glow.fully_connected %x, %w, %b : (tensor<8x144xf32>, tensor<144x10xf32>, tensor<10xf32>) -> tensor<8x10xf32>
  glow.save %y to @y : tensor<8x10xf32>
}
