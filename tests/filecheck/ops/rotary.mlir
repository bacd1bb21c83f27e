// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Two tokens of two heads: four of the six features turn.

glow.placeholder @x input : tensor<1x2x2x6xf32>
glow.placeholder @cos input : tensor<9x2xf32>
glow.placeholder @starts input : tensor<1xi32>
glow.func @main {
  %x = glow.get @x : tensor<1x2x2x6xf32>
  %cos = glow.get @cos : tensor<9x2xf32>
  %starts = glow.get @starts : tensor<1xi32>
  // CHECK: = glow.rotary %x, %cos, %cos, %starts {interleaved = true} : (tensor<1x2x2x6xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<1xi32>) -> tensor<1x2x2x6xf32>
  %0 = glow.rotary %x, %cos, %cos, %starts {interleaved = true} : (tensor<1x2x2x6xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<1xi32>) -> tensor<1x2x2x6xf32>
}

// -----

// expected-error@unknown {{glow.rotary: x is tensor<2x6xf32>, expected [batch, tokens, heads, features]}}
// CHECK: glow.rotary: x is tensor<2x6xf32>, expected [batch, tokens, heads, features]
glow.placeholder @x input : tensor<2x6xf32>
glow.placeholder @cos input : tensor<9x2xf32>
glow.placeholder @starts input : tensor<2xi32>
glow.func @main {
  %x = glow.get @x : tensor<2x6xf32>
  %cos = glow.get @cos : tensor<9x2xf32>
  %starts = glow.get @starts : tensor<2xi32>
  %0 = glow.rotary %x, %cos, %cos, %starts : (tensor<2x6xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<2xi32>) -> tensor<2x6xf32>
}

// -----

// expected-error@unknown {{glow.rotary: angles tensor<9x4xf32> and tensor<9x4xf32> for tensor<1x2x2x6xf32>}}
// CHECK: glow.rotary: angles tensor<9x4xf32> and tensor<9x4xf32> for tensor<1x2x2x6xf32>
glow.placeholder @x input : tensor<1x2x2x6xf32>
glow.placeholder @cos input : tensor<9x4xf32>
glow.placeholder @starts input : tensor<1xi32>
glow.func @main {
  %x = glow.get @x : tensor<1x2x2x6xf32>
  %cos = glow.get @cos : tensor<9x4xf32>
  %starts = glow.get @starts : tensor<1xi32>
  %0 = glow.rotary %x, %cos, %cos, %starts : (tensor<1x2x2x6xf32>, tensor<9x4xf32>, tensor<9x4xf32>, tensor<1xi32>) -> tensor<1x2x2x6xf32>
}

// -----

// expected-error@unknown {{glow.rotary: starts is tensor<2xi32>, expected one i32 for each of a batch of 1}}
// CHECK: glow.rotary: starts is tensor<2xi32>, expected one i32 for each of a batch of 1
glow.placeholder @x input : tensor<1x2x2x6xf32>
glow.placeholder @cos input : tensor<9x2xf32>
glow.placeholder @starts input : tensor<2xi32>
glow.func @main {
  %x = glow.get @x : tensor<1x2x2x6xf32>
  %cos = glow.get @cos : tensor<9x2xf32>
  %starts = glow.get @starts : tensor<2xi32>
  %0 = glow.rotary %x, %cos, %cos, %starts : (tensor<1x2x2x6xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<2xi32>) -> tensor<1x2x2x6xf32>
}
