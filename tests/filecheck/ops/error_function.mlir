// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.func @error_function {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.erf_inv %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.erf_inv %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.erfc %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.erfc %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
}
