// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics -p glow-irgen | filecheck %s --check-prefix=INSTR

// Arithmetic broadcasts as NumPy does; powers may have an exponent of another type.

// INSTR: glow_instr.add @out %{{.*}}, @in %{{.*}}, @in %{{.*}} : memref<2x3xf32>, memref<2x3xf32>, memref<3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.placeholder @i input : tensor<i64>
glow.func @arithmetic {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  %i = glow.get @i : tensor<i64>
  // CHECK: = glow.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r0 = glow.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.sub %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r1 = glow.sub %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.mul %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r2 = glow.mul %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.div %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r3 = glow.div %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.max %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r4 = glow.max %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.min %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r5 = glow.min %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.pow %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r6 = glow.pow %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.mod %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r7 = glow.mod %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.fmod %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r8 = glow.fmod %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.floor_div %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r9 = glow.floor_div %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.pow %x, %i : (tensor<2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
  %r10 = glow.pow %x, %i : (tensor<2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
  // CHECK: = glow.add %i, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %r11 = glow.add %i, %i : (tensor<i64>, tensor<i64>) -> tensor<i64>
}

// -----

// expected-error@unknown {{shapes 2x3 and 2 do not broadcast}}
// CHECK: shapes 2x3 and 2 do not broadcast
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<2xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<2xf32>
  %r0 = glow.add %x, %y : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.mul: element types f32 and i32 differ}}
// CHECK: glow.mul: element types f32 and i32 differ
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xi32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xi32>
  %r0 = glow.mul %x, %y : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.sub: result type is tensor<3xf32>, operands give tensor<2x3xf32>}}
// CHECK: glow.sub: result type is tensor<3xf32>, operands give tensor<2x3xf32>
glow.placeholder @x input : tensor<3xf32>
glow.placeholder @y input : tensor<2x1xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<3xf32>
  %y = glow.get @y : tensor<2x1xf32>
  %r0 = glow.sub %x, %y : (tensor<3xf32>, tensor<2x1xf32>) -> tensor<3xf32>
}
