// RUN: glow-opt %s -p 'glow-simplify{only=noops}' | filecheck %s

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  // CHECK-NEXT: %x = glow.get @x
  // CHECK-NEXT: glow.save %x to @y
  %x = glow.get @x : tensor<4xf32>
  %a = glow.identity %x : (tensor<4xf32>) -> tensor<4xf32>
  %b, %m = glow.dropout %a : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  glow.save %b to @y : tensor<4xf32>
}
