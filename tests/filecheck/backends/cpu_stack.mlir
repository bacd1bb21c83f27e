// RUN: glow-opt %s -p glow-cpu-stack | filecheck %s
// RUN: glow-opt %s -p glow-cpu-stack,glow-irgen | filecheck %s --check-prefix INSTR

glow.placeholder @x input : tensor<2x8xf32>
glow.placeholder @v input : tensor<8xf32>
glow.placeholder @y output : tensor<2x8xf32>
glow.placeholder @z output : tensor<2x8xf32>
glow.placeholder @b output : tensor<2x8xi1>
glow.placeholder @s input : tensor<1xf32>
glow.placeholder @t output : tensor<1xf32>
glow.placeholder @w output : tensor<8xf32>

// A chain with a broadcast operand and a number: one loop.
// CHECK-LABEL: glow.func @chain
// INSTR-LABEL: glow_instr.func @chain
glow.func @chain {
  %x = glow.get @x : tensor<2x8xf32>
  %v = glow.get @v : tensor<8xf32>
  %half = glow.splat {value = 0.5 : f64} : () -> tensor<f32>
  // CHECK: %c = glow_cpu.stack %x, %v : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: ^bb0(%0: tensor<f32>, %1: tensor<f32>):
  // CHECK-NEXT:   %2 = glow.sub %0, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   %3 = glow.exp %2 : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   %4 = glow.splat {value = 5.000000e-01 : f64} : () -> tensor<f32>
  // CHECK-NEXT:   %5 = glow.mul %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK-NEXT:   glow_cpu.yield %5 : tensor<f32>
  // CHECK-NEXT: }
  // CHECK-NEXT: glow.save %c to @y
  // INSTR: glow_cpu_instr.stack @out %c, @in %0, @in %1 {{{.*}}} : memref<2x8xf32>, memref<2x8xf32>, memref<8xf32> {
  // INSTR-NEXT: ^bb0(%[[X:.*]]: tensor<f32>, %[[V:.*]]: tensor<f32>):
  // INSTR-NEXT: glow.sub %[[X]], %[[V]]
  %a = glow.sub %x, %v : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %b = glow.exp %a : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %c = glow.mul %b, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  glow.save %c to @y : tensor<2x8xf32>
}

// What is computed of one element has the numbers of its layer as inputs, so that others share its code; round
// numbers stay in it.
// CHECK-LABEL: glow.func @scale
glow.func @scale {
  %s = glow.get @s : tensor<1xf32>
  %most = glow.splat {value = 255.0 : f64} : () -> tensor<f32>
  %factor = glow.splat {value = 0.00345 : f64} : () -> tensor<f32>
  // CHECK: %[[P:.*]] = glow.get @factor : tensor<f32>
  // CHECK-NEXT: %b = glow_cpu.stack %s, %[[P]] : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32> {
  // CHECK-NEXT: ^bb0(%[[S:.*]]: tensor<f32>, %[[F:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[M:.*]] = glow.splat {value = 2.550000e+02 : f64}
  // CHECK-NEXT:   %[[A:.*]] = glow.div %[[S]], %[[M]]
  // CHECK-NEXT:   glow.mul %[[A]], %[[F]]
  %a = glow.div %s, %most : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %b = glow.mul %a, %factor : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  glow.save %b to @t : tensor<1xf32>
}

// One operator alone, too: its number is not written by every run.
// CHECK-LABEL: glow.func @factor_alone
glow.func @factor_alone {
  %s = glow.get @s : tensor<1xf32>
  %factor = glow.splat {value = 0.00345 : f64} : () -> tensor<f32>
  // CHECK: %[[P:.*]] = glow.get @factor
  // CHECK-NEXT: glow_cpu.stack %s, %[[P]]
  %a = glow.mul %s, %factor : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  glow.save %a to @t : tensor<1xf32>
}

// A value that is needed elsewhere is stored as well; element types may change on the way.
// CHECK-LABEL: glow.func @two_outputs
glow.func @two_outputs {
  %x = glow.get @x : tensor<2x8xf32>
  // CHECK: %a, %c = glow_cpu.stack %x : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi1>) {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[A:.*]] = glow.clip %[[X]] {min = 0.000000e+00 : f64, max = 6.000000e+00 : f64}
  // CHECK-NEXT:   %[[C:.*]] = glow.cmp_gt %[[A]], %[[X]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
  // CHECK-NEXT:   glow_cpu.yield %[[A]], %[[C]] : tensor<f32>, tensor<i1>
  %a = glow.clip %x {min = 0.0 : f64, max = 6.0 : f64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %c = glow.cmp_gt %a, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xi1>
  glow.save %a to @y : tensor<2x8xf32>
  glow.save %c to @b : tensor<2x8xi1>
}

// The sum needs the maximum of the exponentials: one loop for both would wait for itself.
// CHECK-LABEL: glow.func @not_convex
glow.func @not_convex {
  %x = glow.get @x : tensor<2x8xf32>
  // CHECK: glow.exp
  // CHECK-NEXT: glow.reduce_max
  // CHECK-NEXT: glow_cpu.stack
  // CHECK-NEXT: ^bb0(%[[E:.*]]: tensor<f32>, %[[M:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[S:.*]] = glow.add %[[E]], %[[M]]
  // CHECK-NEXT:   glow.neg %[[S]]
  %a = glow.exp %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %m = glow.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %s = glow.add %a, %m : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %n = glow.neg %s : (tensor<2x8xf32>) -> tensor<2x8xf32>
  glow.save %n to @y : tensor<2x8xf32>
}

// Two loops over the same operand stay two; a lone operator stays itself.
// CHECK-LABEL: glow.func @alone
glow.func @alone {
  %x = glow.get @x : tensor<2x8xf32>
  // CHECK: glow.relu
  // CHECK: glow.tanh
  %a = glow.relu %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %b = glow.tanh %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  glow.save %a to @y : tensor<2x8xf32>
  glow.save %b to @z : tensor<2x8xf32>
}

// What is computed of one element for one loop alone is a step of that, reshaped or not; the body says so.
// CHECK-LABEL: glow.func @of_one_element
glow.func @of_one_element {
  %x = glow.get @x : tensor<2x8xf32>
  %s = glow.get @s : tensor<1xf32>
  // CHECK-NEXT: %x = glow.get
  // CHECK-NEXT: %s = glow.get
  // CHECK-NEXT: %d = glow_cpu.stack %s, %x : (tensor<1xf32>, tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: ^bb0(%[[S:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[A:.*]] = glow.abs %[[S]]
  // CHECK-NEXT:   %[[B:.*]] = glow.sqrt %[[A]]
  // CHECK-NEXT:   %[[D:.*]] = glow.mul %[[X]], %[[B]]
  // CHECK-NEXT:   glow_cpu.yield %[[D]]
  %a = glow.abs %s : (tensor<1xf32>) -> tensor<1xf32>
  %b = glow.sqrt %a : (tensor<1xf32>) -> tensor<1xf32>
  %c = glow.reshape %b : (tensor<1xf32>) -> tensor<1x1xf32>
  %d = glow.mul %x, %c : (tensor<2x8xf32>, tensor<1x1xf32>) -> tensor<2x8xf32>
  glow.save %d to @y : tensor<2x8xf32>
}

// Each of several loops has its own step; it stays where others read it, too.
// CHECK-LABEL: glow.func @of_one_element_for_several
glow.func @of_one_element_for_several {
  %x = glow.get @x : tensor<2x8xf32>
  %s = glow.get @s : tensor<1xf32>
  // CHECK-NEXT: %x = glow.get
  // CHECK-NEXT: %s = glow.get
  // CHECK-NEXT: %c = glow_cpu.stack %s, %x
  // CHECK-NEXT: ^bb0(%[[S:.*]]: tensor<f32>, %[[X:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[A:.*]] = glow.abs %[[S]]
  // CHECK-NEXT:   %[[C:.*]] = glow.mul %[[X]], %[[A]]
  // CHECK-NEXT:   glow_cpu.yield %[[C]]
  // CHECK:      glow.reduce_max
  // CHECK-NEXT: %d = glow_cpu.stack %s, %m
  // CHECK-NEXT: ^bb0(%[[T:.*]]: tensor<f32>, %[[M:.*]]: tensor<f32>):
  // CHECK-NEXT:   %[[B:.*]] = glow.abs %[[T]]
  // CHECK-NEXT:   %[[D:.*]] = glow.add %[[M]], %[[B]]
  // CHECK-NEXT:   glow_cpu.yield %[[D]]
  %a = glow.abs %s : (tensor<1xf32>) -> tensor<1xf32>
  %c = glow.mul %x, %a : (tensor<2x8xf32>, tensor<1xf32>) -> tensor<2x8xf32>
  %m = glow.reduce_max %c {axes = array<i64: 1>, keepdims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %d = glow.add %m, %a : (tensor<2x1xf32>, tensor<1xf32>) -> tensor<2x1xf32>
  %e = glow.reduce_sum %d {axes = array<i64: 0>} : (tensor<2x1xf32>) -> tensor<1xf32>
  glow.save %e to @t : tensor<1xf32>
}

// CHECK-LABEL: glow.func @of_one_element_for_others
glow.func @of_one_element_for_others {
  %x = glow.get @x : tensor<2x8xf32>
  %s = glow.get @s : tensor<1xf32>
  // CHECK: %b = glow.neg
  // CHECK-NEXT: glow.reshape %b
  // CHECK-NEXT: glow.sub %x
  // CHECK: glow.save %b to @t
  %b = glow.neg %s : (tensor<1xf32>) -> tensor<1xf32>
  %r = glow.reshape %b : (tensor<1xf32>) -> tensor<1x1xf32>
  %f = glow.sub %x, %r : (tensor<2x8xf32>, tensor<1x1xf32>) -> tensor<2x8xf32>
  glow.save %f to @y : tensor<2x8xf32>
  glow.save %b to @t : tensor<1xf32>
}

// Nor where it has more axes than the loop that reads it.
// CHECK-LABEL: glow.func @of_one_element_of_more_axes
glow.func @of_one_element_of_more_axes {
  %v = glow.get @v : tensor<8xf32>
  %s = glow.get @s : tensor<1xf32>
  // CHECK: %a = glow.abs
  // CHECK: glow.reshape
  // CHECK: %d = glow.mul %v
  %t = glow.reshape %s : (tensor<1xf32>) -> tensor<1x1xf32>
  %a = glow.abs %t : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %c = glow.reshape %a : (tensor<1x1xf32>) -> tensor<1xf32>
  %d = glow.mul %v, %c : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  glow.save %d to @w : tensor<8xf32>
}
