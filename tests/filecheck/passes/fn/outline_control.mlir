// RUN: glow-opt %s -p glow-outline-control | filecheck %s
// RUN: glow-opt %s | glow-opt | filecheck %s --check-prefix=SAME

// A loop becomes a function that calls itself, a branch a choice of two; straight nodes stay a graph, with
// weights where they are used.

// CHECK-LABEL: glow_fn.func @main.1(
// CHECK:         glow_fn.prim lt(
// CHECK:         glow_fn.switch
// CHECK-LABEL: glow_fn.func @main.1.body.1.then(
// CHECK-NEXT:    glow_fn.tensors(
// CHECK:           %w = glow.get @w
// CHECK-NEXT:      %a = glow.add
// CHECK-NEXT:      glow_fn.yield(%a)
// CHECK-LABEL: glow_fn.func @main.1.body.1.else(
// CHECK-LABEL: glow_fn.func @main.1.body(
// CHECK:         glow_fn.switch
// CHECK:         %[[ON:.*]] = glow_fn.prim to_bool(
// CHECK-NEXT:    %[[F:.*]] = glow_fn.ref @main.1
// CHECK-NEXT:    glow_fn.call %[[F]](%{{.*}}, %[[ON]], %{{.*}})
// CHECK-LABEL: glow_fn.func @main.1.exit(
// CHECK-LABEL: glow_fn.func @main(%
// CHECK-NEXT:    glow_fn.tensors(
// CHECK:         glow_fn.prim to_int(

// SAME:        "glow.loop"(%n, %start)
// SAME:          "glow.if"(%on)
// SAME:          glow.yield %on, %next : tensor<i1>, tensor<2xf32>
glow.constant @w = dense<[1.0, 2.0]> : tensor<2xf32>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @n input : tensor<i64>
glow.placeholder @y output : tensor<2xf32>
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %w = glow.get @w : tensor<2xf32>
  %n = glow.get @n : tensor<i64>
  %start = glow.mul %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = "glow.loop"(%n, %start) <{operandSegmentSizes = array<i32: 1, 0, 1>}> ({
  ^bb0(%i : tensor<i64>, %v : tensor<2xf32>):
    %on = glow.cmp_lt %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %next = "glow.if"(%on) ({
      %a = glow.add %v, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      glow.yield %a : tensor<2xf32>
    }, {
      glow.yield %x : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    glow.yield %on, %next : tensor<i1>, tensor<2xf32>
  }) : (tensor<i64>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %y to @y : tensor<2xf32>
}
