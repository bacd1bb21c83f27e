// What the backend runs stays; what it lacks becomes smaller nodes, and the pass prints as it is read.
// RUN: glow-opt %s -p 'glow-legalize{backend=cpu}' | filecheck %s
// RUN: glow-opt %s -p 'glow-legalize{backend=interpreter}' | filecheck %s --check-prefix OTHER
// RUN: glow-opt -p lower --show-pipeline | filecheck %s --check-prefix PRINTED
// RUN: not glow-opt %s -p glow-legalize 2>&1 | filecheck %s --check-prefix NONE
// RUN: not glow-opt %s -p 'glow-legalize{backend=abacus}' 2>&1 | filecheck %s --check-prefix UNKNOWN

// PRINTED: glow-legalize{backend="cpu"},
// NONE:    error: pass glow-legalize: name one backend, as in glow-legalize{backend=cpu}
// UNKNOWN: error: pass glow-legalize: no backend 'abacus'; there are:

glow.placeholder @x input : tensor<4x8xf32>
glow.placeholder @y output : tensor<4x8xf32>

// CHECK-LABEL: glow.func @main
// OTHER-LABEL: glow.func @main
glow.func @main {
  %x = glow.get @x : tensor<4x8xf32>
  // CHECK: [[s:%.*]] = glow.softmax
  // OTHER: [[s:%.*]] = glow.softmax
  %s = glow.softmax %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NOT: glow.cumprod
  // OTHER: glow.cumprod [[s]]
  %n = glow.cumprod %s {axis = 0 : i64, exclusive = false, reverse = false} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: glow.save
  glow.save %n to @y : tensor<4x8xf32>
}
