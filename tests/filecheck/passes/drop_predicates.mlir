// RUN: glow-opt %s -p glow-drop-predicates | filecheck %s
// RUN: glow-opt %s -p cpu | filecheck %s --check-prefix=CPU

// CHECK-LABEL: glow.func @main
// CHECK: glow.conv %x, %w {{.*}} : (tensor<2x1x4x4xf32>, tensor<1x1x3x3xf32>)
// CHECK-NEXT: glow.relu %0 : (tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>

// CPU-NOT: pred
// CPU: glow_cpu_instr.{{.*}}conv
// CPU-NEXT: ^bb0(%[[SUM:.*]]: tensor<f32>):
// CPU-NEXT: glow.relu %[[SUM]]
glow.placeholder @x input : tensor<2x1x4x4xf32>
glow.placeholder @p input : tensor<2xi1>
glow.placeholder @y output : tensor<2x1x4x4xf32>
glow.constant @w = dense<1.0> : tensor<1x1x3x3xf32>
glow.func @main {
  %x = glow.get @x : tensor<2x1x4x4xf32>
  %p = glow.get @p : tensor<2xi1>
  %w = glow.get @w : tensor<1x1x3x3xf32>
  %0 = glow.conv %x, %w pred %p {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x1x4x4xf32>, tensor<1x1x3x3xf32>, tensor<2xi1>) -> tensor<2x1x4x4xf32>
  %1 = glow.relu %0 pred %p : (tensor<2x1x4x4xf32>, tensor<2xi1>) -> tensor<2x1x4x4xf32>
  glow.save %1 to @y : tensor<2x1x4x4xf32>
}
