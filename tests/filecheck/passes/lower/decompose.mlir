// RUN: glow-opt %s -p glow-decompose | filecheck %s
// RUN: glow-opt %s -p 'glow-decompose{ops=clip}' | filecheck %s --check-prefix NAMED

glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  // CHECK: glow.max
  // CHECK: [[m:%.*]] = glow.min
  // NAMED: [[m:%.*]] = glow.min
  %a = glow.clip %x {min = 0.0 : f64, max = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NOT: glow.hard_swish
  // NAMED: glow.hard_swish [[m]]
  %b = glow.hard_swish %a : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %b to @y : tensor<4xf32>
}
