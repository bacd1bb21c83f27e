// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.func @shrink {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.shrink %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.shrink %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
