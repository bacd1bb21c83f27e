// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics -p glow-irgen | filecheck %s --check-prefix=INSTR

// Scale and zero point.

// INSTR: glow_instr.byte_scale @out %{{.*}}, @out %{{.*}}, @in %{{.*}} : memref<f32>, memref<ui8>, memref<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @byte_scale {
  %x = glow.get @x : tensor<2x3xf32>
  // CHECK: = glow.byte_scale %x : (tensor<2x3xf32>) -> (tensor<f32>, tensor<ui8>)
  %scale, %zero = glow.byte_scale %x : (tensor<2x3xf32>) -> (tensor<f32>, tensor<ui8>)
}

// -----

// expected-error@unknown {{glow.byte_scale: tensor<2x3xf64>, expected elements of f32; cast it}}
// CHECK: glow.byte_scale: tensor<2x3xf64>, expected elements of f32; cast it
glow.placeholder @x input : tensor<2x3xf64>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf64>
  %scale, %zero = glow.byte_scale %x : (tensor<2x3xf64>) -> (tensor<f32>, tensor<ui8>)
}
