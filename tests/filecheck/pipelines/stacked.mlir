// The paper's example of operator stacking: addition and maximum are one loop over memory.
// RUN: glow-opt %s -p cpu -t llvm-ir --mcpu haswell | filecheck %s

// One kernel: two vectors in, the sum and the larger of it and zero, one vector out, in one block.
// CHECK:         define void @glow_{{.*}}(ptr {{.*}}, ptr {{.*}}, ptr {{.*}}, i64 {{.*}})
// CHECK:           load <8 x float>
// CHECK:           load <8 x float>
// CHECK:           [[SUM:%.+]] = fadd <8 x float>
// CHECK-NEXT:      fcmp {{.*}}[[SUM]]
// CHECK-NEXT:      select
// CHECK-NEXT:      getelementptr
// CHECK-NEXT:      store <8 x float>
// CHECK:         define void @glow_main
// CHECK:           call void @glow_
// CHECK-NEXT:      ret void
glow.placeholder @a input : tensor<1024xf32>
glow.placeholder @b input : tensor<1024xf32>
glow.placeholder @y output : tensor<1024xf32>
glow.func @main {
  %a = glow.get @a : tensor<1024xf32>
  %b = glow.get @b : tensor<1024xf32>
  %zero = glow.splat {value = 0.0 : f64} : () -> tensor<1024xf32>
  %sum = glow.add %a, %b : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %y = glow.max %sum, %zero : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  glow.save %y to @y : tensor<1024xf32>
}
