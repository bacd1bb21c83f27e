// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xi32>
glow.func @bits {
  %x = glow.get @x : tensor<2x3xi32>
  // CHECK: = glow.count_leading_zeros %x : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %r0 = glow.count_leading_zeros %x : (tensor<2x3xi32>) -> tensor<2x3xi32>
  // CHECK: = glow.popcount %x : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %r1 = glow.popcount %x : (tensor<2x3xi32>) -> tensor<2x3xi32>
}
