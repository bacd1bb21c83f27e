// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Each bad program gets one message, and none of the others is lost.

// CHECK: error: {{.*}}errors.mlir:{{[0-9]+}}:{{[0-9]+}}
// CHECK: Operation glow.rleu is not registered
// expected-error@unknown {{Operation glow.rleu is not registered}}
glow.func @unknown_operator {
  %x = glow.rleu : () -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.get: the module has no constant or placeholder @nothing}}
// CHECK: error: {{.*}}the program is not valid: glow.get: the module has no constant or placeholder @nothing
glow.func @unknown_symbol {
  %x = glow.get @nothing : tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.get: @x is tensor<4xf32>, used as tensor<5xf32>}}
// CHECK: error: {{.*}}the program is not valid: glow.get: @x is tensor<4xf32>, used as tensor<5xf32>
glow.placeholder @x input : tensor<4xf32>
glow.func @other_type {
  %x = glow.get @x : tensor<5xf32>
}

// -----

// expected-error@unknown {{glow.add: result type is tensor<2xf32>, operands give tensor<2x2xf32>}}
// CHECK: error: {{.*}}the program is not valid: glow.add: result type is tensor<2xf32>, operands give tensor<2x2xf32>
glow.placeholder @x input : tensor<2x2xf32>
glow.func @result_type {
  %x = glow.get @x : tensor<2x2xf32>
  %y = glow.add %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
}

// -----

// expected-error@unknown {{shapes 2 and 3 do not broadcast}}
// CHECK: error: {{.*}}the program is not valid: glow.add: shapes 2 and 3 do not broadcast
// CHECK-NEXT: at %z = "glow.add"(%x, %y)
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @broadcast {
  %x = glow.get @x : tensor<2xf32>
  %y = glow.get @y : tensor<3xf32>
  %z = glow.add %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
}

// -----

// expected-error@unknown {{glow.save: constants are never written}}
// CHECK: error: {{.*}}the program is not valid: glow.save: constants are never written
glow.constant @w = dense<1.0> : tensor<2xf32>
glow.func @constant_written {
  %w = glow.get @w : tensor<2xf32>
  glow.save %w to @w : tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.add takes 2 operands, got 1}}
// CHECK: glow.add takes 2 operands, got 1
glow.placeholder @x input : tensor<2xf32>
glow.func @operands {
  %x = glow.get @x : tensor<2xf32>
  %z = glow.add %x : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.relu: an operand is used before its definition}}
// CHECK: error: {{.*}}the program is not valid: glow.relu: an operand is used before its definition
glow.placeholder @x input : tensor<2xf32>
glow.func @order {
  %y = glow.relu %x : (tensor<2xf32>) -> tensor<2xf32>
  %x = glow.get @x : tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.placeholder @x: kind 'inptu' is not one of ('input', 'output', 'state', 'trainable',}}
// CHECK: error: {{.*}}the program is not valid: {{.*}}kind 'inptu' is not one of
glow.placeholder @x inptu : tensor<2xf32>

// -----

// CHECK: builtin.module
// CHECK: glow.placeholder @good input : tensor<2xf32>
glow.placeholder @good input : tensor<2xf32>

// -----

// expected-error@unknown {{glow.relu: predicate tensor<4xf32>, expected i1 or a vector of i1}}
// CHECK: error: {{.*}}the program is not valid: glow.relu: predicate tensor<4xf32>, expected i1 or a vector of i1
glow.placeholder @x input : tensor<4xf32>
glow.func @predicate_type {
  %x = glow.get @x : tensor<4xf32>
  %y = glow.relu %x pred %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.splat: is in the module itself, not in a function}}
// CHECK: error: {{.*}}the program is not valid: glow.splat: is in the module itself, not in a function
%x = glow.splat {value = 1.0 : f64} : () -> tensor<2xf32>

// -----

// expected-error@unknown {{glow.get: is in the module itself, not in a function}}
// CHECK: error: {{.*}}the program is not valid: glow.get: is in the module itself, not in a function
glow.placeholder @x input : tensor<2xf32>
%x = glow.get @x : tensor<2xf32>

// -----

// expected-error@unknown {{glow_instr.relu: is in the module itself, not in a function}}
// CHECK: error: {{.*}}the program is not valid: glow_instr.relu: is in the module itself, not in a function
%b = glow_instr.alloc : memref<2xf32>
glow_instr.relu @out %b, @in %b : memref<2xf32>, memref<2xf32>
