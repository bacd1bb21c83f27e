// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A product whose rows are open; b is packed a panel at a time. Everything round-trips.
// CHECK: glow_kernel.kernel "rows" schedule <instruction = "fma.f64", lanes = 8, rows = 4, columns = 2> {
// CHECK: %[[P:.*]] = glow_kernel.pack %{{.*}} map affine_map<{{.*}}> : memref<9x20xf64> to memref<2x9x2x1x8x1xf64, #glow_kernel.memory<align 64>>
// CHECK: glow_kernel.nest <i = open, j = 20, sum k = 9> maps
// CHECK-SAME: sizes(%{{.*}} : index) ins(%{{.*}}, %[[P]] : {{.*}}) extras(%{{.*}} : memref<20xf64>) out({{.*}}) step {
// CHECK: } finish {
glow_kernel.kernel "rows" schedule <instruction = "fma.f64", lanes = 8, rows = 4, columns = 2> {
^bb0(%y: memref<?x20xf64>, %a: memref<?x9xf64>, %b: memref<9x20xf64>, %c: memref<20xf64>, %m: index):
  %p = glow_kernel.pack %b map affine_map<(p, s, v, g, n, e) -> (s + g + e, p * 16 + v * 8 + n)> : memref<9x20xf64> to memref<2x9x2x1x8x1xf64, #glow_kernel.memory<align 64>>
  glow_kernel.nest <i = open, j = 20, sum k = 9>
    maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j floordiv 16, k, (j mod 16) floordiv 8, 0, j mod 8, 0)>, affine_map<(i, j, k) -> (j)>, affine_map<(i, j, k) -> (i, j)>]
    sizes(%m : index) ins(%a, %p : memref<?x9xf64>, memref<2x9x2x1x8x1xf64, #glow_kernel.memory<align 64>>) extras(%c : memref<20xf64>) out(%y : memref<?x20xf64>) step {
    ^bb0(%t: tensor<f64>, %x: tensor<f64>, %w: tensor<f64>):
      %u = glow.mul %x, %w : (tensor<f64>, tensor<f64>) -> tensor<f64>
      %v = glow.add %t, %u : (tensor<f64>, tensor<f64>) -> tensor<f64>
      glow_kernel.yield %v : tensor<f64>
    } finish {
    ^bb1(%t: tensor<f64>, %x: tensor<f64>):
      %v = glow.add %t, %x : (tensor<f64>, tensor<f64>) -> tensor<f64>
      glow_kernel.yield %v : tensor<f64>
    }
}

// -----

// A window of three elements may reach into a border of zeros, and no further.
// CHECK: memref<8xf32, #glow_kernel.memory<align 1, border [1]>>
glow_kernel.kernel "inside" {
^bb0(%y: memref<8xf32>, %x: memref<8xf32, #glow_kernel.memory<align 1, border [1]>>):
  glow_kernel.nest <i = 8, sum t = 3> maps [affine_map<(i, t) -> (i + t - 1)>, affine_map<(i, t) -> (i)>] ins(%x : memref<8xf32, #glow_kernel.memory<align 1, border [1]>>) out(%y : memref<8xf32>) step {
  ^bb0(%t: tensor<f32>, %v: tensor<f32>):
    %u = glow.add %t, %v : (tensor<f32>, tensor<f32>) -> tensor<f32>
    glow_kernel.yield %u : tensor<f32>
  }
}

// -----

// expected-error@+1 {{axis 0 of view 0, memref<8xf32>, is reached from -1 to 8; give it a border, or other loops or instructions}}
glow_kernel.kernel "outside" {
^bb0(%y: memref<8xf32>, %x: memref<8xf32>):
  glow_kernel.nest <i = 8, sum t = 3> maps [affine_map<(i, t) -> (i + t - 1)>, affine_map<(i, t) -> (i)>] ins(%x : memref<8xf32>) out(%y : memref<8xf32>) step {
  ^bb0(%t: tensor<f32>, %v: tensor<f32>):
    %u = glow.add %t, %v : (tensor<f32>, tensor<f32>) -> tensor<f32>
    glow_kernel.yield %u : tensor<f32>
  }
}

// -----

// A tile instruction reads 64 bytes of a row: rows of 60 are packed first.
// expected-error@+1 {{axis 1 of view 0, memref<16x60xi8>, is reached from 0 to 63}}
glow_kernel.kernel "tile" schedule <instruction = "tile.s8s8"> {
^bb0(%y: memref<16x16xi32>, %a: memref<16x60xi8>, %b: memref<60x16xi8>):
  glow_kernel.nest <i = 16, j = 16, sum k = 60> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%a, %b : memref<16x60xi8>, memref<60x16xi8>) out(%y : memref<16x16xi32>) step {
  ^bb0(%t: tensor<i32>, %v: tensor<i8>, %w: tensor<i8>):
    glow_kernel.yield %t : tensor<i32>
  }
}

// -----

// expected-error@+1 {{no instruction 'fma.f99'; there are: dot2.bf16, }}
glow_kernel.kernel "unknown" schedule <instruction = "fma.f99"> {
^bb0(%y: memref<4x4xf64>, %a: memref<4x4xf64>):
  glow_kernel.nest <i = 4, j = 4, sum k = 4> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%a, %a : memref<4x4xf64>, memref<4x4xf64>) out(%y : memref<4x4xf64>) step {
  ^bb0(%t: tensor<f64>, %v: tensor<f64>, %w: tensor<f64>):
    glow_kernel.yield %t : tensor<f64>
  }
}

// -----

// expected-error@+3 {{1 loops are open, 0 sizes are given}}
glow_kernel.kernel "sizes" {
^bb0(%y: memref<?xf32>, %x: memref<?xf32>):
  glow_kernel.nest <i = open> maps [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>] ins(%x : memref<?xf32>) out(%y : memref<?xf32>) step {
  ^bb0(%t: tensor<f32>, %v: tensor<f32>):
    glow_kernel.yield %v : tensor<f32>
  }
}
