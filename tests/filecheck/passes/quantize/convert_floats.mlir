// RUN: glow-opt %s -p 'glow-convert-floats{to=bf16}' | filecheck %s
// RUN: glow-opt %s -p 'glow-convert-floats{to=f16 storage=true}' | filecheck %s --check-prefix STORAGE
// RUN: glow-opt %s -p 'glow-convert-floats{to=f16 keep=exp}' | filecheck %s --check-prefix KEEP

// STORAGE: glow.constant {{.*}} : tensor<2xf16>
glow.constant @w = dense<[1.0, 70000.0]> : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  // CHECK: [[x:%.*]] = glow.cast %x : (tensor<2xf32>) -> tensor<2xbf16>
  // STORAGE: [[w:%.*]] = glow.cast {{.*}} : (tensor<2xf16>) -> tensor<2xf32>
  %w = glow.get @w : tensor<2xf32>
  // CHECK: [[a:%.*]] = glow.add [[x]], {{.*}} -> tensor<2xbf16>
  // STORAGE: glow.add %x, [[w]] : {{.*}} -> tensor<2xf32>
  // KEEP: [[n:%.*]] = glow.add {{.*}} -> tensor<2xf16>
  // KEEP: [[wide:%.*]] = glow.cast [[n]]
  // KEEP: glow.exp [[wide]] : (tensor<2xf32>) -> tensor<2xf32>
  %a = glow.add %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: [[e:%.*]] = glow.exp [[a]]
  // CHECK-NEXT: [[back:%.*]] = glow.cast [[e]]
  // CHECK-NEXT: glow.save [[back]] to @y
  %e = glow.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  glow.save %e to @y : tensor<2xf32>
}
