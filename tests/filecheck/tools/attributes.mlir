// Attributes that users write on functions and nodes stay: of nodes that become one, equal ones once, others as an
// array; what a node is taken apart into has all of them.
// RUN: glow-opt %s -p glow-decompose{ops=lp_normalize} | filecheck %s --check-prefix APART
// RUN: glow-opt %s -p cpu | filecheck %s --check-prefix CPU
// RUN: glow-opt %s -p glow-cse | filecheck %s --check-prefix CSE

// APART:       glow.func @main attributes {device = "npu0", stage = 1 : i64}
// APART:         glow.tanh %{{.*}} {device = "a", p = 1 : i64}
// APART:         glow.mul %{{.*}} {owner = "me"}
// APART-NOT:     glow.splat {{.*}}owner
// APART:         glow.div %{{.*}} {owner = "me"}
// APART:         glow.save %{{.*}} {device = "s"}

// CPU:         glow_instr.func @main attributes {device = "npu0", stage = 1 : i64, arena
// CPU:           glow_cpu_instr.stack {{.*}}{device = ["a", "b"], p = 1 : i64
// CPU:           glow_instr.lp_normalize {{.*}}{owner = "me"

// Equal nodes whose attributes differ stay two.
// CSE-COUNT-2:   glow.tanh

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y output : tensor<2x3xf32>
glow.placeholder @z output : tensor<2x3xf32>
glow.func @main attributes {device = "npu0", stage = 1 : i64} {
  %x = glow.get @x : tensor<2x3xf32>
  %a = glow.tanh %x {device = "a", p = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = glow.sigmoid %a {device = "b", p = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %n = glow.lp_normalize %b {axis = 1, p = 2, owner = "me"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = glow.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  glow.save %n to @y {device = "s"} : tensor<2x3xf32>
  glow.save %c to @z : tensor<2x3xf32>
}
