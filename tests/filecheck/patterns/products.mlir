// RUN: glow-opt %s -p 'glow-simplify{only=products}' | filecheck %s

glow.placeholder @m : tensor<5x9xi8>
glow.placeholder @s16 : tensor<5x9xi16>
glow.placeholder @n : tensor<9x4xui8>
glow.placeholder @o output : tensor<5x4xi32>
glow.placeholder @q output : tensor<5x4xi32>
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @s input : tensor<5x2x3xf32>
glow.placeholder @w input : tensor<3x4xf32>
glow.placeholder @b input : tensor<4xf32>
glow.placeholder @t input : tensor<2x4xf32>
glow.placeholder @i input : tensor<2x1x6x9xf32>
glow.placeholder @h input : tensor<8x1x6x3xf32>
glow.placeholder @v input : tensor<8x1x3x9xf32>
glow.placeholder @c output : tensor<2x8x1x7xf32>
glow.placeholder @d output : tensor<2x8x4x1xf32>
glow.placeholder @y output : tensor<2x4xf32>
glow.placeholder @z output : tensor<5x2x4xf32>

// CHECK-LABEL: glow.func @bias
glow.func @bias {
  %x = glow.get @x : tensor<2x3xf32>
  %w = glow.get @w : tensor<3x4xf32>
  %b = glow.get @b : tensor<4xf32>
  // CHECK: glow.fully_connected %x, %w, %b
  %p = glow.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %a = glow.add %p, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// CHECK-LABEL: glow.func @keeps_full_addend
glow.func @keeps_full_addend {
  %x = glow.get @x : tensor<2x3xf32>
  %w = glow.get @w : tensor<3x4xf32>
  %t = glow.get @t : tensor<2x4xf32>
  // CHECK: glow.matmul
  %p = glow.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %a = glow.add %p, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  glow.save %a to @y : tensor<2x4xf32>
}

// CHECK-LABEL: glow.func @stack
glow.func @stack {
  %s = glow.get @s : tensor<5x2x3xf32>
  %w = glow.get @w : tensor<3x4xf32>
  // CHECK: [[r:%.*]] = glow.reshape %s : (tensor<5x2x3xf32>) -> tensor<10x3xf32>
  // CHECK-NEXT: [[p:%.*]] = glow.matmul [[r]], %w
  // CHECK-NEXT: glow.reshape [[p]] : (tensor<10x4xf32>) -> tensor<5x2x4xf32>
  %p = glow.batch_matmul %s, %w : (tensor<5x2x3xf32>, tensor<3x4xf32>) -> tensor<5x2x4xf32>
  glow.save %p to @z : tensor<5x2x4xf32>
}

// A filter as high as its image: the rows are channels.
// CHECK-LABEL: glow.func @high
glow.func @high {
  %i = glow.get @i : tensor<2x1x6x9xf32>
  %h = glow.get @h : tensor<8x1x6x3xf32>
  // CHECK: [[x:%.*]] = glow.reshape %i : (tensor<2x1x6x9xf32>) -> tensor<2x6x1x9xf32>
  // CHECK-NEXT: [[w:%.*]] = glow.reshape %h : (tensor<8x1x6x3xf32>) -> tensor<8x6x1x3xf32>
  // CHECK-NEXT: glow.conv [[x]], [[w]] {strides = array<i64: 1, 1>
  // CHECK-SAME: -> tensor<2x8x1x7xf32>
  %c = glow.conv %i, %h {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x1x6x9xf32>, tensor<8x1x6x3xf32>) -> tensor<2x8x1x7xf32>
  glow.save %c to @c : tensor<2x8x1x7xf32>
}

// A filter as wide as its image: the columns are channels, which are last already.
// CHECK-LABEL: glow.func @wide
glow.func @wide {
  %i = glow.get @i : tensor<2x1x6x9xf32>
  %v = glow.get @v : tensor<8x1x3x9xf32>
  // CHECK: glow.conv {{.*}}layout = "NHWC"{{.*}} : (tensor<2x6x1x9xf32>, tensor<8x3x1x9xf32>) -> tensor<2x4x1x8xf32>
  // CHECK-NEXT: glow.transpose
  %c = glow.conv %i, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x1x6x9xf32>, tensor<8x1x3x9xf32>) -> tensor<2x8x4x1xf32>
  glow.save %c to @d : tensor<2x8x4x1xf32>
}

// Bytes that are multiplied as i32 are multiplied as bytes; bytes of different signs, too.
// CHECK-LABEL: glow.func @bytes
glow.func @bytes {
  %m = glow.get @m : tensor<5x9xi8>
  %n = glow.get @n : tensor<9x4xui8>
  // CHECK: [[a:%.*]] = glow.bit_cast %m : (tensor<5x9xi8>) -> tensor<5x9x!quant.uniform<{{.*}}>>
  // CHECK-NEXT: [[b:%.*]] = glow.bit_cast %n
  // CHECK-NEXT: glow.quantized_matmul [[a]], [[b]] {{.*}} -> tensor<5x4xi32>
  %a = glow.cast %m : (tensor<5x9xi8>) -> tensor<5x9xi32>
  %b = glow.cast %n : (tensor<9x4xui8>) -> tensor<9x4xi32>
  %p = glow.matmul %a, %b : (tensor<5x9xi32>, tensor<9x4xi32>) -> tensor<5x4xi32>
  glow.save %p to @o : tensor<5x4xi32>
}

// Numbers of 16 bits are not.
// CHECK-LABEL: glow.func @words
glow.func @words {
  %m = glow.get @s16 : tensor<5x9xi16>
  %n = glow.get @n : tensor<9x4xui8>
  // CHECK: glow.matmul
  %a = glow.cast %m : (tensor<5x9xi16>) -> tensor<5x9xi32>
  %b = glow.cast %n : (tensor<9x4xui8>) -> tensor<9x4xi32>
  %p = glow.matmul %a, %b : (tensor<5x9xi32>, tensor<9x4xi32>) -> tensor<5x4xi32>
  glow.save %p to @q : tensor<5x4xi32>
}
