// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Activations: parameters print where they are not the defaults.

glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @y input : tensor<3xf32>
glow.func @activation {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.get @y : tensor<3xf32>
  // CHECK: = glow.sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r0 = glow.sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r1 = glow.tanh %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.leaky_relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r2 = glow.leaky_relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.elu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r3 = glow.elu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.selu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r4 = glow.selu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.celu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r5 = glow.celu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.hard_sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r6 = glow.hard_sigmoid %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.hard_swish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r7 = glow.hard_swish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.gelu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r8 = glow.gelu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.swish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r9 = glow.swish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.softplus %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r10 = glow.softplus %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.softsign %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r11 = glow.softsign %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.mish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r12 = glow.mish %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.clip %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r13 = glow.clip %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.thresholded_relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r14 = glow.thresholded_relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.logit %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r15 = glow.logit %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.leaky_relu %x {alpha = 3.000000e-01 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r16 = glow.leaky_relu %x {alpha = 0.3 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.gelu %x {approximate = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r17 = glow.gelu %x {approximate = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.clip %x {min = -1.000000e+00 : f64, max = 2.500000e+00 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r18 = glow.clip %x {min = -1.0 : f64, max = 2.5 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.logit %x {eps = 1.000000e-01 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r19 = glow.logit %x {eps = 0.1 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: = glow.prelu %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %r20 = glow.prelu %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.gelu: approximate is 'fast', not one of none, tanh}}
// CHECK: glow.gelu: approximate is 'fast', not one of none, tanh
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.gelu %x {approximate = "fast"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.logit: eps is 0.7, must be below 0.5}}
// CHECK: glow.logit: eps is 0.7, must be below 0.5
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.logit %x {eps = 0.7 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.celu: alpha is 0}}
// CHECK: glow.celu: alpha is 0
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.celu %x {alpha = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.clip: a limit is NaN}}
// CHECK: glow.clip: a limit is NaN
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error3 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.clip %x {min = 0x7FF8000000000000 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
}

// -----

// expected-error@unknown {{glow.tanh: result type is tensor<3xf32>, operands give tensor<2x3xf32>}}
// CHECK: glow.tanh: result type is tensor<3xf32>, operands give tensor<2x3xf32>
glow.placeholder @x input : tensor<2x3xf32>
glow.func @error4 {
  %x = glow.get @x : tensor<2x3xf32>
  %r0 = glow.tanh %x : (tensor<2x3xf32>) -> tensor<3xf32>
}
