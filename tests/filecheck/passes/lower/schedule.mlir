// RUN: glow-opt %s -p glow-schedule | filecheck %s
// RUN: glow-opt %s -p 'glow-schedule{by=order}' | filecheck %s --check-prefix ORDER

glow.placeholder @small input : tensor<4xf32>
glow.placeholder @row input : tensor<1x4xf32>
glow.placeholder @column input : tensor<64x1xf32>
glow.placeholder @out output : tensor<64x4xf32>

// The operand whose computation needs most memory over what it leaves comes first (Sethi-Ullman):
// the large sum, which leaves one large buffer but held two, before the small negation.
// CHECK-LABEL: glow.func @main
// CHECK:         glow.add
// CHECK-NEXT:    glow.neg %{{.*}} : (tensor<64x4xf32>)
// CHECK-NEXT:    glow.neg %{{.*}} : (tensor<4xf32>)

// ORDER-LABEL: glow.func @main
// ORDER:         glow.neg %{{.*}} : (tensor<4xf32>)
// ORDER-NEXT:    glow.add
// ORDER-NEXT:    glow.neg %{{.*}} : (tensor<64x4xf32>)
glow.func @main {
  %s = glow.get @small : tensor<4xf32>
  %r = glow.get @row : tensor<1x4xf32>
  %c = glow.get @column : tensor<64x1xf32>
  %n = glow.neg %s : (tensor<4xf32>) -> tensor<4xf32>
  %a = glow.add %r, %c : (tensor<1x4xf32>, tensor<64x1xf32>) -> tensor<64x4xf32>
  %b = glow.neg %a : (tensor<64x4xf32>) -> tensor<64x4xf32>
  %y = glow.mul %n, %b : (tensor<4xf32>, tensor<64x4xf32>) -> tensor<64x4xf32>
  glow.save %y to @out : tensor<64x4xf32>
}
