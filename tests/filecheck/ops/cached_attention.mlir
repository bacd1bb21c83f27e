// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Two tokens over a cache that they are written to first.

glow.placeholder @q input : tensor<1x2x4x8xf32>
glow.placeholder @rows input : tensor<1x2x2x8xf32>
glow.placeholder @keys state : tensor<3x2x9x8xf32>
glow.placeholder @numbers input : tensor<1xi32>
glow.func @main {
  %q = glow.get @q : tensor<1x2x4x8xf32>
  %rows = glow.get @rows : tensor<1x2x2x8xf32>
  %keys = glow.get @keys : tensor<3x2x9x8xf32>
  %n = glow.get @numbers : tensor<1xi32>
  // CHECK: = glow.cache_write %keys, %rows, %n, %n : (tensor<3x2x9x8xf32>, tensor<1x2x2x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3x2x9x8xf32>
  %0 = glow.cache_write %keys, %rows, %n, %n : (tensor<3x2x9x8xf32>, tensor<1x2x2x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3x2x9x8xf32>
  // CHECK: = glow.cached_attention %q, %0, %0, %n, %n {window = 4 : i64, scale = 5.000000e-01 : f64} : (tensor<1x2x4x8xf32>, tensor<3x2x9x8xf32>, tensor<3x2x9x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x4x8xf32>
  %1 = glow.cached_attention %q, %0, %0, %n, %n {scale = 0.5 : f64, window = 4 : i64} : (tensor<1x2x4x8xf32>, tensor<3x2x9x8xf32>, tensor<3x2x9x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x4x8xf32>
}

// -----

// expected-error@unknown {{glow.cache_write: tensor<1x2x4x8xf32> does not go into tensor<3x2x9x8xf32>}}
// CHECK: glow.cache_write: tensor<1x2x4x8xf32> does not go into tensor<3x2x9x8xf32>
glow.placeholder @rows input : tensor<1x2x4x8xf32>
glow.placeholder @keys state : tensor<3x2x9x8xf32>
glow.placeholder @numbers input : tensor<1xi32>
glow.func @main {
  %rows = glow.get @rows : tensor<1x2x4x8xf32>
  %keys = glow.get @keys : tensor<3x2x9x8xf32>
  %n = glow.get @numbers : tensor<1xi32>
  %0 = glow.cache_write %keys, %rows, %n, %n : (tensor<3x2x9x8xf32>, tensor<1x2x4x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3x2x9x8xf32>
}

// -----

// expected-error@unknown {{glow.cached_attention: tensor<1x2x3x8xf32> over tensor<3x2x9x8xf32> and tensor<3x2x9x8xf32}}
// CHECK: glow.cached_attention: tensor<1x2x3x8xf32> over tensor<3x2x9x8xf32> and tensor<3x2x9x8xf32>
glow.placeholder @q input : tensor<1x2x3x8xf32>
glow.placeholder @keys state : tensor<3x2x9x8xf32>
glow.placeholder @numbers input : tensor<1xi32>
glow.func @main {
  %q = glow.get @q : tensor<1x2x3x8xf32>
  %keys = glow.get @keys : tensor<3x2x9x8xf32>
  %n = glow.get @numbers : tensor<1xi32>
  %0 = glow.cached_attention %q, %keys, %keys, %n, %n {scale = 0.5 : f64} : (tensor<1x2x3x8xf32>, tensor<3x2x9x8xf32>, tensor<3x2x9x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x3x8xf32>
}

// -----

// expected-error@unknown {{glow.cached_attention: slots is tensor<2xi32>, expected one i32 for each of a batch of 1}}
// CHECK: glow.cached_attention: slots is tensor<2xi32>, expected one i32 for each of a batch of 1
glow.placeholder @q input : tensor<1x2x4x8xf32>
glow.placeholder @keys state : tensor<3x2x9x8xf32>
glow.placeholder @numbers input : tensor<2xi32>
glow.func @main {
  %q = glow.get @q : tensor<1x2x4x8xf32>
  %keys = glow.get @keys : tensor<3x2x9x8xf32>
  %n = glow.get @numbers : tensor<2xi32>
  %0 = glow.cached_attention %q, %keys, %keys, %n, %n {scale = 0.5 : f64} : (tensor<1x2x4x8xf32>, tensor<3x2x9x8xf32>, tensor<3x2x9x8xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2x4x8xf32>
}

// -----

// expected-error@unknown {{glow.cached_attention: sinks are tensor<2xf32>; give one number per head of q}}
// CHECK: glow.cached_attention: sinks are tensor<2xf32>; give one number per head of q
glow.placeholder @q input : tensor<1x2x4x8xf32>
glow.placeholder @keys state : tensor<3x2x9x8xf32>
glow.placeholder @numbers input : tensor<1xi32>
glow.placeholder @sinks input : tensor<2xf32>
glow.func @main {
  %q = glow.get @q : tensor<1x2x4x8xf32>
  %keys = glow.get @keys : tensor<3x2x9x8xf32>
  %n = glow.get @numbers : tensor<1xi32>
  %sinks = glow.get @sinks : tensor<2xf32>
  %0 = glow.cached_attention %q, %keys, %keys, %n, %n, %sinks {scale = 0.5 : f64} : (tensor<1x2x4x8xf32>, tensor<3x2x9x8xf32>, tensor<3x2x9x8xf32>, tensor<1xi32>, tensor<1xi32>, tensor<2xf32>) -> tensor<1x2x4x8xf32>
}
