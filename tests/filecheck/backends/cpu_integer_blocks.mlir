// RUN: glow-opt %s -p "glow-cpu-integer-blocks{cpu=haswell},glow-dce" --split-input-file | filecheck %s

// Two products of one input: its integers are made once. Their second factors have the codes' point.
// CHECK:      [[Q:%\S+]], [[F:%\S+]] = glow_cpu.quantize_rows %x {point = 8.000000e+00 : f64, block = 32 : i64}
// CHECK-NEXT: = glow_cpu.integer_block_gemm [[Q]], %c, %s, [[F]] {
// CHECK-NEXT: ^bb0([[SUM:%\S+]]: tensor<f32>):
// CHECK-NEXT:   [[R:%\S+]] = glow.relu [[SUM]]
// CHECK-NEXT:   glow_cpu.yield [[R]]
// CHECK-NEXT: }
// CHECK-NEXT: = glow_cpu.integer_block_gemm [[Q]], %c, %s, [[F]] {
// CHECK-NEXT: glow.save

glow.placeholder @x input : tensor<1x64xf32>
glow.placeholder @c input : tensor<16x32xui8>
glow.placeholder @s input : tensor<16x2xf32>
glow.placeholder @y output : tensor<1x16xf32>
glow.placeholder @z output : tensor<1x16xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x64xf32>
  %c = glow.get @c : tensor<16x32xui8>
  %s = glow.get @s : tensor<16x2xf32>
  %r = glow.round_blocks %x {block = 32 : i64} : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %0 = glow_cpu.block_gemm %r, %c, %s {bits = 4 : i64, block = 32 : i64, depth = 64 : i64, point = 8.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1x64xf32>, tensor<16x32xui8>, tensor<16x2xf32>) -> tensor<1x16xf32> {
  ^bb0(%sum: tensor<f32>):
    %positive = glow.relu %sum : (tensor<f32>) -> tensor<f32>
    glow_cpu.yield %positive : tensor<f32>
  }
  %1 = glow_cpu.block_gemm %r, %c, %s {bits = 4 : i64, block = 32 : i64, depth = 64 : i64, point = 8.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1x64xf32>, tensor<16x32xui8>, tensor<16x2xf32>) -> tensor<1x16xf32>
  glow.save %0 to @y : tensor<1x16xf32>
  glow.save %1 to @z : tensor<1x16xf32>
}

// -----

// Blocks of another size than the weights' stay floats.
// CHECK:      = glow.round_blocks %x {block = 64 : i64}
// CHECK-NEXT: = glow_cpu.block_gemm
glow.placeholder @x input : tensor<1x64xf32>
glow.placeholder @c input : tensor<16x32xui8>
glow.placeholder @s input : tensor<16x2xf32>
glow.placeholder @y output : tensor<1x16xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x64xf32>
  %c = glow.get @c : tensor<16x32xui8>
  %s = glow.get @s : tensor<16x2xf32>
  %r = glow.round_blocks %x {block = 64 : i64} : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %0 = glow_cpu.block_gemm %r, %c, %s {bits = 4 : i64, block = 32 : i64, depth = 64 : i64, point = 8.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1x64xf32>, tensor<16x32xui8>, tensor<16x2xf32>) -> tensor<1x16xf32>
  glow.save %0 to @y : tensor<1x16xf32>
}

// -----

// So do products of what is not rounded, and codes that stand for any numbers.
// CHECK:      = glow.round_blocks %x
// CHECK-NEXT: = glow_cpu.block_gemm %r
// CHECK-NEXT: = glow_cpu.block_gemm %x
glow.placeholder @x input : tensor<1x64xf32>
glow.placeholder @c input : tensor<16x32xui8>
glow.placeholder @s input : tensor<16x2xf32>
glow.placeholder @y output : tensor<1x16xf32>
glow.placeholder @z output : tensor<1x16xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x64xf32>
  %c = glow.get @c : tensor<16x32xui8>
  %s = glow.get @s : tensor<16x2xf32>
  %r = glow.round_blocks %x {block = 32 : i64} : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %0 = glow_cpu.block_gemm %r, %c, %s {bits = 4 : i64, block = 32 : i64, depth = 64 : i64, levels = array<f64: 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1x64xf32>, tensor<16x32xui8>, tensor<16x2xf32>) -> tensor<1x16xf32>
  %1 = glow_cpu.block_gemm %x, %c, %s {bits = 4 : i64, block = 32 : i64, depth = 64 : i64, point = 8.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<1x64xf32>, tensor<16x32xui8>, tensor<16x2xf32>) -> tensor<1x16xf32>
  glow.save %0 to @y : tensor<1x16xf32>
  glow.save %1 to @z : tensor<1x16xf32>
}
