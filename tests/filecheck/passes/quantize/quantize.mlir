// RUN: glow-opt %s -p glow-quantize | filecheck %s
// RUN: glow-opt %s -p 'glow-quantize{schema=symmetric}' | filecheck %s --check-prefix SYMMETRIC
// RUN: glow-opt %s -p 'glow-quantize{everything=true}' | filecheck %s --check-prefix ALL
// RUN: glow-opt %s -p 'glow-quantize{keep=fully_connected}' | filecheck %s --check-prefix KEEP

glow.constant @w = dense<[[1.0, -2.0], [0.5, 1.0]]> : tensor<2x2xf32>
glow.constant @b = dense<[1.0, 2.0]> : tensor<2xf32>
glow.constant @f = dense<0.5> : tensor<2x1x1x1xf32>
glow.constant @g = dense<0.5> : tensor<2x2x3x3xf32>
glow.constant @wide = dense<0.5> : tensor<2x16xf32>
glow.placeholder @z output : tensor<3x16xf32>
glow.placeholder @i input : tensor<1x2x9x9xf32>
glow.placeholder @o output : tensor<1x2x7x7xf32>
glow.placeholder @x input : tensor<3x2xf32>
glow.placeholder @y output : tensor<3x2xf32>

// Input and result by their ranges, each column of weights by its largest element.
// CHECK-LABEL: glow.func @main
// KEEP-LABEL: glow.func @main
glow.func @main {
  // CHECK: [[x:%.*]] = glow.quantize %x {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 0.03125:-64>>
  // SYMMETRIC: glow.quantize %x {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 0.046{{[0-9]*}}>>
  %x = glow.get @x {range = array<f64: -2.0, 5.96875>} : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  %b = glow.get @b : tensor<2xf32>
  // CHECK: [[y:%.*]] = glow.quantized_fully_connected [[x]], {{.*}}!quant.uniform<i8:f32:1, {0.007{{[0-9]*}}, 0.015{{[0-9]*}}}>
  // CHECK-NEXT: [[real:%.*]] = glow.dequantize [[y]]
  // CHECK-NEXT: glow.save [[real]]
  // KEEP: glow.fully_connected
  %y = glow.fully_connected %x, %w, %b {range = array<f64: 0.0, 8.0>} : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}

// Nobody knows the range of the result.
// CHECK-LABEL: glow.func @keeps_without_range
glow.func @keeps_without_range {
  %x = glow.get @x {range = array<f64: -2.0, 5.96875>} : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  // CHECK: glow.matmul
  %y = glow.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}

// The second channel is a hundred times as large: weights take over a part of it; the rounding of the
// weights, seen at the channels' means, is a bias.
// CHECK-LABEL: glow.func @uneven_channels
// CHECK: [[even:%.*]] = glow.mul %x, %{{.*}} : (tensor<3x2xf32>, tensor<1x2xf32>)
// CHECK: [[q:%.*]] = glow.quantize [[even]]
// CHECK: glow.quantized_fully_connected [[q]], %{{.*}}, %{{.*}} : ({{.*}}, tensor<2xi32>)
glow.func @uneven_channels {
  %x = glow.get @x {range = array<f64: -2.0, 200.0>, channels = array<f64: 0.5, 50.0, -2.0, 0.0, 2.0, 200.0>} : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  %y = glow.matmul %x, %w {range = array<f64: 0.0, 8.0>} : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  glow.save %y to @y : tensor<3x2xf32>
}

// A depthwise convolution has little to gain from integers.
// CHECK-LABEL: glow.func @depthwise
// CHECK: glow.conv {{.*}}group = 2
// CHECK: glow.quantized_conv
// ALL-LABEL: glow.func @depthwise
// ALL-NOT: glow.conv
// ALL: glow.quantized_conv {{.*}}group = 2
glow.func @depthwise {
  %i = glow.get @i {range = array<f64: -2.0, 2.0>} : tensor<1x2x9x9xf32>
  %f = glow.get @f : tensor<2x1x1x1xf32>
  %g = glow.get @g : tensor<2x2x3x3xf32>
  %d = glow.conv %i, %f {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64, range = array<f64: -1.0, 1.0>} : (tensor<1x2x9x9xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x9x9xf32>
  %o = glow.conv %d, %g {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, range = array<f64: -9.0, 9.0>} : (tensor<1x2x9x9xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x7x7xf32>
  glow.save %o to @o : tensor<1x2x7x7xf32>
}

// Of two layers, the one whose rounding costs the outputs most stays float, as long as it is a small part.
// CHECK-LABEL: glow.func @costly
// ALL-LABEL: glow.func @costly
glow.func @costly {
  %x = glow.get @x {range = array<f64: -2.0, 5.96875>} : tensor<3x2xf32>
  %w = glow.get @w : tensor<2x2xf32>
  %v = glow.get @wide : tensor<2x16xf32>
  // CHECK: glow.matmul %x, %w
  // ALL-NOT: glow.matmul
  %y = glow.matmul %x, %w {range = array<f64: 0.0, 8.0>, loss = 1.0e-02} : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  // CHECK: glow.quantized_fully_connected
  %z = glow.matmul %y, %v {range = array<f64: 0.0, 8.0>, loss = 1.0e-05} : (tensor<3x2xf32>, tensor<2x16xf32>) -> tensor<3x16xf32>
  glow.save %z to @z : tensor<3x16xf32>
}
