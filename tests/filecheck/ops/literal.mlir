// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Small constants; infinities keep their bits.

glow.func @literal {
  // CHECK: = glow.literal {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
  %r0 = glow.literal {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
  // CHECK: = glow.literal {value = dense<5.000000e-01> : tensor<2xf32>} : () -> tensor<2xf32>
  %r1 = glow.literal {value = dense<0.5> : tensor<2xf32>} : () -> tensor<2xf32>
  // CHECK: = glow.literal {value = #glow.bits<"0x0000807F000080FF", tensor<2xf32>>} : () -> tensor<2xf32>
  %r2 = glow.literal {value = #glow.bits<"0x0000807F000080FF", tensor<2xf32>>} : () -> tensor<2xf32>
}

// -----

// expected-error@unknown {{glow.literal: value is tensor<2xi64>, result tensor<3xi64>}}
// CHECK: glow.literal: value is tensor<2xi64>, result tensor<3xi64>
glow.func @error0 {
  %r0 = glow.literal {value = dense<[1, 2]> : tensor<2xi64>} : () -> tensor<3xi64>
}

// -----

// expected-error@unknown {{#glow.bits: 2 bytes for tensor<2xf32>}}
// CHECK: #glow.bits: 2 bytes for tensor<2xf32>
glow.func @error1 {
  %r0 = glow.literal {value = #glow.bits<"0x0000", tensor<2xf32>>} : () -> tensor<2xf32>
}

// -----

// expected-error@unknown {{'0xzz' is not hexadecimal}}
// CHECK: '0xzz' is not hexadecimal
glow.func @error2 {
  %r0 = glow.literal {value = #glow.bits<"0xzz", tensor<2xf32>>} : () -> tensor<2xf32>
}
