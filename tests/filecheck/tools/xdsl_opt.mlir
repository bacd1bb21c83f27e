// Plain xdsl-opt knows the dialects and passes of the installed package.
// RUN: xdsl-opt %s | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s -p glow-irgen | filecheck %s --check-prefix INSTR
// RUN: glow-opt %S/../backends/cpu_stack.mlir --split-input-file -p glow-cpu-stack | xdsl-opt --split-input-file | filecheck %s --check-prefix CPU

// CHECK:      glow.placeholder @q input : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
// CHECK:      glow.func @main
// CHECK:        glow.relu %{{.*}} : (tensor<4xf32>) -> tensor<4xf32>

// INSTR:      glow_instr.func @main
// INSTR:        glow_instr.relu @out %{{.*}}, @in %{{.*}}

// CPU:        glow_cpu.stack
glow.placeholder @q input : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %y = glow.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  glow.save %y to @y : tensor<4xf32>
}
