// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @logarithms {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  // CHECK: = glow.exp2 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.exp2 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.log10 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.log10 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.log2 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r2 = glow.log2 %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.logaddexp %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r3 = glow.logaddexp %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.logaddexp2 %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r4 = glow.logaddexp2 %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.xlog1py %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r5 = glow.xlog1py %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.xlogy %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r6 = glow.xlogy %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
}
