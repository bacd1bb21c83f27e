// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

glow.placeholder @x input : tensor<3x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @t input : tensor<256x!quant.uniform<i8:f32, 0.25>>
glow.func @main {
  %x = glow.get @x : tensor<3x!quant.uniform<i8:f32, 0.5:3>>
  %t = glow.get @t : tensor<256x!quant.uniform<i8:f32, 0.25>>
  // CHECK: glow.lookup %x, %t :
  %y = glow.lookup %x, %t : (tensor<3x!quant.uniform<i8:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x!quant.uniform<i8:f32, 0.25>>
}

// -----

// expected-error@unknown {{glow.lookup: tensor<3x!quant.uniform<i16:f32, 0.5:3>> has no table of 256 entries in tenso}}
glow.placeholder @x input : tensor<3x!quant.uniform<i16:f32, 0.5:3>>
glow.placeholder @t input : tensor<256x!quant.uniform<i8:f32, 0.25>>
glow.func @main {
  %x = glow.get @x : tensor<3x!quant.uniform<i16:f32, 0.5:3>>
  %t = glow.get @t : tensor<256x!quant.uniform<i8:f32, 0.25>>
  // CHECK: error: {{.*}}has no table of 256 entries
  %y = glow.lookup %x, %t : (tensor<3x!quant.uniform<i16:f32, 0.5:3>>, tensor<256x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x!quant.uniform<i8:f32, 0.25>>
}
