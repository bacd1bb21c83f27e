// RUN: glow-opt %s -p cpu -t kernels --mcpu skylake-avx512 | filecheck %s
// RUN: glow-opt %s -p cpu -t kernels --mcpu skylake-avx512 | glow-opt - | filecheck %s

// The kernels of a program that are described, under the names of their code.
// CHECK: glow_kernel.kernel "glow_product_{{.*}}" schedule <instruction = "fma.f64", lanes = 8, rows = 5, columns = 3, pack_b = false> {
// CHECK-NEXT: ^bb0(%[[Y:.*]]: memref<5x20xf64>, %[[A:.*]]: memref<5x9xf64>, %[[B:.*]]: memref<9x20xf64>):
// CHECK-NEXT: glow_kernel.nest <i = 5, j = 20, sum k = 9> maps [{{.*}}] ins(%[[A]], %[[B]] : {{.*}}) out(%[[Y]] : memref<5x20xf64>) step {
glow.placeholder @a : tensor<5x9xf64>
glow.placeholder @b : tensor<9x20xf64>
glow.placeholder @y output : tensor<5x20xf64>
glow.func @main {
  %a = glow.get @a : tensor<5x9xf64>
  %b = glow.get @b : tensor<9x20xf64>
  %0 = glow.matmul %a, %b : (tensor<5x9xf64>, tensor<9x20xf64>) -> tensor<5x20xf64>
  glow.save %0 to @y : tensor<5x20xf64>
}
