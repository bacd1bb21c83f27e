// RUN: glow-opt %s -p glow-cse | filecheck %s

// CHECK: glow.constant @a
// CHECK-NOT: glow.constant @b
// CHECK: glow.constant @c
glow.constant @a = dense<[1.0, 2.0]> : tensor<2xf32>
glow.constant @b = dense<[1.0, 2.0]> : tensor<2xf32>
glow.constant @c = dense<[1.0, 3.0]> : tensor<2xf32>
glow.placeholder @p input : tensor<i1>
glow.placeholder @x input : tensor<2xf32>
glow.placeholder @y output : tensor<2xf32>

// CHECK-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<2xf32>
  %a = glow.get @a : tensor<2xf32>
  %b = glow.get @b : tensor<2xf32>
  %c = glow.get @c : tensor<2xf32>
  // CHECK: [[s:%.*]] = glow.add %x, %a
  // CHECK-NEXT: [[t:%.*]] = glow.add %x, %c
  // CHECK-NEXT: glow.mul [[s]], [[s]]
  %s = glow.add %x, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %u = glow.add %x, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %t = glow.add %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %m = glow.mul %s, %u : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %n = glow.mul %m, %t : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %n to @y : tensor<2xf32>
}

// Where the predicate is false a node's value means nothing; nodes under other predicates need theirs.
// CHECK-LABEL: glow.func @keeps_predicated
glow.func @keeps_predicated {
  %x = glow.get @x : tensor<2xf32>
  %p = glow.get @p : tensor<i1>
  // CHECK: glow.relu %x pred %p
  // CHECK-NEXT: glow.relu %x :
  %a = glow.relu %x pred %p : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  %b = glow.relu %x : (tensor<2xf32>) -> tensor<2xf32>
  %c = glow.add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  glow.save %c to @y : tensor<2xf32>
}

// Equal integers of different scales are different numbers.
// CHECK-LABEL: glow.func @keeps_scales
glow.func @keeps_scales {
  // CHECK: glow.get @half
  // CHECK: glow.get @quarter
  %h = glow.get @half : tensor<2x!quant.uniform<i8:f32, 0.5>>
  %q = glow.get @quarter : tensor<2x!quant.uniform<i8:f32, 0.25>>
  glow.save %h to @halves : tensor<2x!quant.uniform<i8:f32, 0.5>>
  glow.save %q to @quarters : tensor<2x!quant.uniform<i8:f32, 0.25>>
}
glow.constant @half = #glow.bits<"0x0102", tensor<2x!quant.uniform<i8:f32, 0.5>>>
glow.constant @quarter = #glow.bits<"0x0102", tensor<2x!quant.uniform<i8:f32, 0.25>>>
glow.placeholder @halves output : tensor<2x!quant.uniform<i8:f32, 0.5>>
glow.placeholder @quarters output : tensor<2x!quant.uniform<i8:f32, 0.25>>
