// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Twenty codes of four bits in blocks of sixteen: two scales a row.

glow.placeholder @codes input : tensor<3x10xui8>
glow.placeholder @scales input : tensor<3x2xf32>
glow.func @main {
  %codes = glow.get @codes : tensor<3x10xui8>
  %scales = glow.get @scales : tensor<3x2xf32>
  // CHECK: = glow.dequantize_blocks %codes, %scales {point = 8.000000e+00 : f64, bits = 4 : i64, block = 16 : i64, depth = 20 : i64} : (tensor<3x10xui8>, tensor<3x2xf32>) -> tensor<3x20xf32>
  %0 = glow.dequantize_blocks %codes, %scales {bits = 4 : i64, block = 16 : i64, depth = 20 : i64, point = 8.0 : f64} : (tensor<3x10xui8>, tensor<3x2xf32>) -> tensor<3x20xf32>
}

// -----

// expected-error@unknown {{glow.dequantize_blocks: 24 codes of 4 bits do not fill tensor<3x10xui8>}}
// CHECK: glow.dequantize_blocks: 24 codes of 4 bits do not fill tensor<3x10xui8>
glow.placeholder @codes input : tensor<3x10xui8>
glow.placeholder @scales input : tensor<3x2xf32>
glow.func @main {
  %codes = glow.get @codes : tensor<3x10xui8>
  %scales = glow.get @scales : tensor<3x2xf32>
  %0 = glow.dequantize_blocks %codes, %scales {bits = 4 : i64, block = 16 : i64, depth = 24 : i64} : (tensor<3x10xui8>, tensor<3x2xf32>) -> tensor<3x24xf32>
}

// -----

// expected-error@unknown {{glow.dequantize_blocks: tensor<3x3xf32> with tensor<3x10xui8> in blocks of 16}}
// CHECK: glow.dequantize_blocks: tensor<3x3xf32> with tensor<3x10xui8> in blocks of 16
glow.placeholder @codes input : tensor<3x10xui8>
glow.placeholder @scales input : tensor<3x3xf32>
glow.func @main {
  %codes = glow.get @codes : tensor<3x10xui8>
  %scales = glow.get @scales : tensor<3x3xf32>
  %0 = glow.dequantize_blocks %codes, %scales {bits = 4 : i64, block = 16 : i64, depth = 20 : i64} : (tensor<3x10xui8>, tensor<3x3xf32>) -> tensor<3x20xf32>
}
