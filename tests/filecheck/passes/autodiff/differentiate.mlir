// RUN: glow-opt %s --split-input-file -p "glow-differentiate{loss=loss optimizer=sgd lr=0.1},glow-decompose{ops=sgd}" | filecheck %s
// RUN: glow-opt %s --split-input-file -p "glow-differentiate" | filecheck %s --check-prefix=GRAD

// The example of the paper's figure: the gradient of A / B and its SGD, lowered to primitives.
glow.placeholder @A trainable : tensor<2xf32>
glow.placeholder @B trainable : tensor<2xf32>
glow.placeholder @loss output : tensor<2xf32>
glow.func @main {
  %a = glow.get @A : tensor<2xf32>
  %b = glow.get @B : tensor<2xf32>
  %q = glow.div %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %q to @loss : tensor<2xf32>
}

// CHECK-LABEL: glow.func @main
// CHECK:       glow.func @main_training training
// CHECK-DAG:     [[A:%.*]] = glow.get @A
// CHECK-DAG:     [[B:%.*]] = glow.get @B
// CHECK:         [[Q:%.*]] = glow.div [[A]], [[B]]
// CHECK-NEXT:    glow.save [[Q]] to @loss
// CHECK:         [[DA:%.*]] = glow.div {{%.*}}, [[B]]
// CHECK:         glow.mul [[DA]], [[Q]]
// CHECK:         [[DB:%.*]] = glow.mul
// CHECK:         [[SA:%.*]] = glow.mul [[DA]],
// CHECK-NEXT:    [[NA:%.*]] = glow.sub [[A]], [[SA]]
// CHECK-NEXT:    glow.save [[NA]] to @A
// CHECK:         [[SB:%.*]] = glow.mul [[DB]],
// CHECK-NEXT:    [[NB:%.*]] = glow.sub [[B]], [[SB]]
// CHECK-NEXT:    glow.save [[NB]] to @B
// CHECK-NOT:     sgd

// GRAD-LABEL: glow.func @main_training training
// GRAD:         glow.save {{%.*}} to @A.grad
// GRAD:         glow.save {{%.*}} to @B.grad
