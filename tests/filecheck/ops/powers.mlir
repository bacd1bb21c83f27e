// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.func @powers {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.cbrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.cbrt %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.square %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.square %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
