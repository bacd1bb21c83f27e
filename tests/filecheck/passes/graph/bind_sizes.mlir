// RUN: glow-opt %s | filecheck %s --check-prefix ROUND
// RUN: glow-opt %s -p "glow-bind-sizes{sizes=\"n=64\",\"past len=3\"}" | filecheck %s

// ROUND: attributes {glow.symbols = #glow.symbols<n = 64 from 8 to 512 by 8, "past len" = 33 from 0 where [n-16] ge 0
// CHECK-NOT: glow.symbols
builtin.module attributes {glow.symbols = #glow.symbols<n = 64 from 8 to 512 by 8, "past len" = 33 from 0 where [n - 16] ge 0>} {
  // ROUND: glow.placeholder @x input : tensor<[n]x["past len"+1]x128xf32>
  // CHECK: glow.placeholder @x input : tensor<64x4x128xf32>
  glow.placeholder @x input : tensor<[n]x["past len" + 1]x128xf32>
  // CHECK: glow.placeholder @y output : tensor<2x4x128xf32>
  glow.placeholder @y output : tensor<[n floordiv 32]x["past len" + 1]x128xf32>
  // CHECK: glow.placeholder @flat output : tensor<32768xf32>
  glow.placeholder @flat output : tensor<[128 * n * ("past len" + 1)]xf32>
  glow.func @main {
    %x = glow.get @x : tensor<[n]x["past len"+1]x128xf32>
    // ROUND: glow.slice {{.*}} ends = #glow.sizes<[((n floordiv 8) floordiv 4), "past len"+1, 128]>
    // CHECK: glow.slice {{.*}} ends = array<i64: 2, 4, 128>
    %s = glow.slice %x {starts = array<i64: 0, 0, 0>, ends = #glow.sizes<[n floordiv 32, "past len" + 1, 128]>, steps = array<i64: 1, 1, 1>} : (tensor<[n]x["past len"+1]x128xf32>) -> tensor<[n floordiv 32]x["past len"+1]x128xf32>
    glow.save %s to @y : tensor<[n floordiv 32]x["past len"+1]x128xf32>
    // ROUND: glow.reshape %{{.*}} : (tensor<[n]x["past len"+1]x128xf32>) -> tensor<[128*n*"past len"+128*n]xf32>
    %f = glow.reshape %x : (tensor<[n]x["past len"+1]x128xf32>) -> tensor<[128 * n * ("past len" + 1)]xf32>
    glow.save %f to @flat : tensor<[128 * n * ("past len" + 1)]xf32>
  }
}
