// RUN: glow-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Sizes give the result; other properties print where they are not the defaults.

glow.placeholder @x input : tensor<1x1x2x3xf32>
glow.placeholder @g input : tensor<1x1x4x6xf32>
glow.func @resize {
  %x = glow.get @x : tensor<1x1x2x3xf32>
  %g = glow.get @g : tensor<1x1x4x6xf32>
  // CHECK: = glow.resize %x {sizes = array<i64: 1, 1, 4, 6>} : (tensor<1x1x2x3xf32>) -> tensor<1x1x4x6xf32>
  %r0 = glow.resize %x {sizes = array<i64: 1, 1, 4, 6>} : (tensor<1x1x2x3xf32>) -> tensor<1x1x4x6xf32>
  // CHECK: = glow.resize %x {mode = "cubic", coordinate_transformation_mode = "align_corners", cubic_coeff_a = -5.000000e-01 : f64, sizes = array<i64: 1, 1, 4, 6>} : (tensor<1x1x2x3xf32>) -> tensor<1x1x4x6xf32>
  %r1 = glow.resize %x {sizes = array<i64: 1, 1, 4, 6>, mode = "cubic", coordinate_transformation_mode = "align_corners", cubic_coeff_a = -0.5 : f64} : (tensor<1x1x2x3xf32>) -> tensor<1x1x4x6xf32>
  // CHECK: = glow.resize_grad %g {mode = "linear", sizes = array<i64: 1, 1, 4, 6>} : (tensor<1x1x4x6xf32>) -> tensor<1x1x2x3xf32>
  %r2 = glow.resize_grad %g {sizes = array<i64: 1, 1, 4, 6>, mode = "linear"} : (tensor<1x1x4x6xf32>) -> tensor<1x1x2x3xf32>
}

// -----

// expected-error@unknown {{glow.resize: sizes has 2 entries for a tensor of rank 4}}
// CHECK: glow.resize: sizes has 2 entries for a tensor of rank 4
glow.placeholder @x input : tensor<1x1x2x3xf32>
glow.func @error0 {
  %x = glow.get @x : tensor<1x1x2x3xf32>
  %r0 = glow.resize %x {sizes = array<i64: 4, 6>} : (tensor<1x1x2x3xf32>) -> tensor<1x1x4x6xf32>
}

// -----

// expected-error@unknown {{glow.resize: mode is 'bilinear', not one of nearest, linear, cubic}}
// CHECK: glow.resize: mode is 'bilinear', not one of nearest, linear, cubic
glow.placeholder @x input : tensor<2xf32>
glow.func @error1 {
  %x = glow.get @x : tensor<2xf32>
  %r0 = glow.resize %x {sizes = array<i64: 4>, mode = "bilinear"} : (tensor<2xf32>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.resize: roi has 0 entries, expected a begin and an end for each of 1 axes}}
// CHECK: glow.resize: roi has 0 entries, expected a begin and an end for each of 1 axes
glow.placeholder @x input : tensor<2xf32>
glow.func @error2 {
  %x = glow.get @x : tensor<2xf32>
  %r0 = glow.resize %x {sizes = array<i64: 4>, coordinate_transformation_mode = "tf_crop_and_resize"} : (tensor<2xf32>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.resize: sizes [4] or scales [-2.0] are not positive}}
// CHECK: glow.resize: sizes [4] or scales [-2.0] are not positive
glow.placeholder @x input : tensor<2xf32>
glow.func @error3 {
  %x = glow.get @x : tensor<2xf32>
  %r0 = glow.resize %x {sizes = array<i64: 4>, scales = array<f64: -2.0>} : (tensor<2xf32>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.resize: nothing to interpolate in 0}}
// CHECK: glow.resize: nothing to interpolate in 0
glow.placeholder @x input : tensor<0xf32>
glow.func @error4 {
  %x = glow.get @x : tensor<0xf32>
  %r0 = glow.resize %x {sizes = array<i64: 4>} : (tensor<0xf32>) -> tensor<4xf32>
}

// -----

// expected-error@unknown {{glow.resize_grad: tensor<4xf32> is not a cotangent of tensor<2xf32>}}
// CHECK: glow.resize_grad: tensor<4xf32> is not a cotangent of tensor<2xf32>
glow.placeholder @g input : tensor<4xf32>
glow.func @error5 {
  %g = glow.get @g : tensor<4xf32>
  %r0 = glow.resize_grad %g {sizes = array<i64: 5>} : (tensor<4xf32>) -> tensor<2xf32>
}
