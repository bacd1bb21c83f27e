// RUN: glow-opt %s -p "glow-irgen,glow-eliminate-copies" | filecheck %s

// A new token goes into the cache where that is: no copy of it is made, and the next call finds it there.

glow.placeholder @q input : tensor<1x1x2x8xf32>
glow.placeholder @row input : tensor<1x1x2x8xf32>
glow.placeholder @keys state : tensor<1x2x64x8xf32>
glow.placeholder @numbers input : tensor<1xi32>
glow.placeholder @y output : tensor<1x1x2x8xf32>
glow.func @main {
  %q = glow.get @q : tensor<1x1x2x8xf32>
  %row = glow.get @row : tensor<1x1x2x8xf32>
  %keys = glow.get @keys : tensor<1x2x64x8xf32>
  %n = glow.get @numbers : tensor<1xi32>
  // CHECK:      [[KEYS:%\S+]] = glow_instr.weight @keys
  // CHECK:      glow_instr.cache_write @out [[KEYS]], @in [[KEYS]],
  // CHECK-NEXT: glow_instr.cached_attention @out {{%\S+}}, @in {{%\S+}}, @in [[KEYS]], @in [[KEYS]],
  // CHECK-NOT:  glow_instr.copy
  %new = glow.cache_write %keys, %row, %n, %n : (tensor<1x2x64x8xf32>, tensor<1x1x2x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x64x8xf32>
  glow.save %new to @keys : tensor<1x2x64x8xf32>
  %y = glow.cached_attention %q, %new, %new, %n, %n {scale = 0.5 : f64} : (tensor<1x1x2x8xf32>, tensor<1x2x64x8xf32>, tensor<1x2x64x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x1x2x8xf32>
  glow.save %y to @y : tensor<1x1x2x8xf32>
}
