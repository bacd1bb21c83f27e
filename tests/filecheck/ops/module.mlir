// RUN: glow-opt %s --split-input-file --verify-diagnostics | not glow-opt --split-input-file --verify-diagnostics | filecheck %s
// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s --check-prefix ERROR

// Functions share what the module owns: constants, and placeholders of four kinds.
// CHECK:      glow.constant @w = dense<1.000000e+00> : tensor<2xf32>
// CHECK-NEXT: glow.placeholder @x input : tensor<2xf32>
// CHECK-NEXT: glow.placeholder @s state : tensor<2xf32>
// CHECK-NEXT: glow.placeholder @t trainable {init = #glow.resource<"t">} : tensor<2xf32>
// CHECK-NEXT: glow.placeholder @y output {onnx.name = "y:0"} : tensor<2xf32>
// CHECK:      glow.func @first {
// CHECK-NEXT:   %x = glow.get @x : tensor<2xf32>
// CHECK-NEXT:   glow.save %x to @y : tensor<2xf32>
// CHECK:      glow.func @second training {
// CHECK-NEXT:   %w = glow.get @w : tensor<2xf32>
// CHECK-NEXT:   glow.save %w to @s : tensor<2xf32>
glow.constant @w = dense<1.0> : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @s state : tensor<2xf32>
glow.placeholder @t trainable {init = #glow.resource<"t">} : tensor<2xf32>
glow.placeholder @y output {onnx.name = "y:0"} : tensor<2xf32>
glow.func @first {
  %x = glow.get @x : tensor<2xf32>
  glow.save %x to @y : tensor<2xf32>
}
glow.func @second training {
  %w = glow.get @w : tensor<2xf32>
  glow.save %w to @s : tensor<2xf32>
}

// -----

// expected-error@unknown {{Redefinition of symbol "x"}}
// ERROR: error: {{.*}}the program is not valid: glow.constant: Redefinition of symbol "x"
glow.placeholder @x input : tensor<2xf32>
glow.constant @x = dense<1.0> : tensor<2xf32>

// -----

// expected-error@unknown {{glow.placeholder @x: tensor<?xf32> is not static; bind its shape}}
// ERROR: error: {{.*}}the program is not valid: glow.placeholder @x: tensor<?xf32> is not static; bind its shape
glow.placeholder @x input : tensor<?xf32>

// -----

// expected-error@unknown {{glow.save: @x is an input, which a program only reads}}
// ERROR: error: {{.*}}the program is not valid: glow.save: @x is an input, which a program only reads
glow.placeholder @x input : tensor<2xf32>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  glow.save %x to @x : tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.func: @inner is inside @outer}}
// ERROR: error: {{.*}}the program is not valid: glow.func: @inner is inside @outer
glow.func @outer {
  glow.func @inner {
  }
}

// -----

// expected-error@unknown {{glow.exp: predicate tensor<3xi1> does not fit the batch sizes [2]}}
// ERROR: error: {{.*}}the program is not valid: glow.exp: predicate tensor<3xi1> does not fit the batch sizes [2]
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @p input : tensor<3xi1>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %p = glow.get @p : tensor<3xi1>
  %y = glow.exp %x pred %p : (tensor<2xf32>, tensor<3xi1>) -> tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.get: @y is an output, which a program only writes; use a state}}
// ERROR: error: {{.*}}the program is not valid: glow.get: @y is an output, which a program only writes; use a state
glow.placeholder @y output : tensor<2xf32>
glow.func @main {
  %y = glow.get @y : tensor<2xf32>
  glow.save %y to @y : tensor<2xf32>
}

// -----

// expected-error@unknown {{arith.constant: values of a glow.func are tensors, got f32}}
// ERROR: error: {{.*}}the program is not valid: arith.constant: values of a glow.func are tensors, got f32
glow.func @main {
  %c = arith.constant 1.0 : f32
}
