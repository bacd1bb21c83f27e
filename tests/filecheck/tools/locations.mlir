// RUN: glow-opt %s --print-debuginfo | filecheck %s --check-prefix=READ
// RUN: glow-opt %s --print-debuginfo | glow-opt --print-debuginfo | filecheck %s --check-prefix=READ
// RUN: glow-opt %s -p optimize,lower,instr --print-debuginfo | filecheck %s --check-prefix=INSTR
// RUN: glow-opt %s -p cpu --mcpu haswell --print-debuginfo | filecheck %s --check-prefix=CPU

glow.placeholder @x input : tensor<1x8x8x8xf32>
glow.constant @w = dense<5.000000e-01> : tensor<8x8x3x3xf32>
glow.placeholder @y output : tensor<1x8x8x8xf32>
glow.func @main {
  %x = glow.get @x : tensor<1x8x8x8xf32>
  %w = glow.get @w : tensor<8x8x3x3xf32>
  // What the text says stays as it is; the others have the place of their text.
  // READ: glow.conv {{.*}} loc("first"("model.onnx":3:0))
  %c = glow.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("first"("model.onnx":3:0))
  // READ: glow.relu {{.*}}locations.mlir":16:3)
  %r = glow.relu %c : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %a = glow.tanh %r : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("left")
  %b = glow.tanh %r : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("right")
  %s = glow.add %a, %b : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc("sum")
  glow.save %s to @y : tensor<1x8x8x8xf32>
}

// Equal nodes become one, which stands for both.
// INSTR: glow_instr.conv {{.*}} loc("first"("model.onnx":3:0))
// INSTR: glow_instr.tanh {{.*}} loc(fused["left", "right"])
// INSTR: glow_instr.add {{.*}} loc("sum")

// A kernel that does the work of several has the places of all of them.
// CPU: glow_cpu_instr.conv
// CPU: glow.relu {{.*}} loc("{{.*}}locations.mlir":16:3)
// CPU: glow.tanh {{.*}} loc(fused["left", "right"])
// CPU: } loc(fused["first"("model.onnx":3:0), "{{.*}}locations.mlir":16:3, "left", "right"])
// CPU: glow_instr.add {{.*}} loc("sum")
