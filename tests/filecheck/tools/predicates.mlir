// Any node may carry an advisory predicate; it stays through both levels and both forms.
// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s
// RUN: glow-opt %s -p glow-irgen | filecheck %s --check-prefix INSTR

// CHECK:  glow.relu %x pred %p : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
// CHECK:  glow.add %y, %x pred %p : (tensor<4xf32>, tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
// INSTR:  glow_instr.relu @out %{{.*}}, @in %{{.*}} {{.*}}
// INSTR:  glow_instr.add @out %{{.*}}, @in %{{.*}}, @in %{{.*}} {{.*}}
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @p input : tensor<i1>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %p = glow.get @p : tensor<i1>
  %y = glow.relu %x pred %p : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  %z = glow.add %y, %x pred %p : (tensor<4xf32>, tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  glow.save %z to @y : tensor<4xf32>
}
