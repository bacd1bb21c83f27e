"builtin.module"() <{sym_name = "jit_layers"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "params[0][0]"}, {glow.name = "params[0][1]"}, {glow.name = "params[1][0]"}, {glow.name = "params[1][1]"}, {glow.name = "x"}], function_type = (tensor<5x6xf32>, tensor<6xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<3x5xf32>) -> tensor<3x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<5x6xf32>, %arg3: tensor<6xf32>, %arg4: tensor<6x4xf32>, %arg5: tensor<4xf32>, %arg6: tensor<3x5xf32>):
    %6 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> {glow.location = "jit(layers)/reduce_sum at write_programs.py:37"} : () -> tensor<f32>
    %7 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.dot_general"(%arg6, %arg2) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> {glow.location = "jit(layers)/dot_general at write_programs.py:36"} : (tensor<3x5xf32>, tensor<5x6xf32>) -> tensor<3x6xf32>
    %9 = "stablehlo.broadcast_in_dim"(%arg3) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "jit(layers)/broadcast_in_dim at write_programs.py:36"} : (tensor<6xf32>) -> tensor<1x6xf32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(layers)/add at write_programs.py:36"} : (tensor<1x6xf32>) -> tensor<3x6xf32>
    %11 = "stablehlo.add"(%8, %10) {glow.location = "jit(layers)/add at write_programs.py:36"} : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
    %12 = "func.call"(%11) <{callee = @relu}> {glow.location = "jit(layers)/jit(relu) at write_programs.py:36"} : (tensor<3x6xf32>) -> tensor<3x6xf32>
    %13 = "stablehlo.dot_general"(%12, %arg4) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> {glow.location = "jit(layers)/dot_general at write_programs.py:36"} : (tensor<3x6xf32>, tensor<6x4xf32>) -> tensor<3x4xf32>
    %14 = "stablehlo.broadcast_in_dim"(%arg5) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "jit(layers)/broadcast_in_dim at write_programs.py:36"} : (tensor<4xf32>) -> tensor<1x4xf32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(layers)/add at write_programs.py:36"} : (tensor<1x4xf32>) -> tensor<3x4xf32>
    %16 = "stablehlo.add"(%13, %15) {glow.location = "jit(layers)/add at write_programs.py:36"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %17 = "func.call"(%16) <{callee = @relu_0}> {glow.location = "jit(layers)/jit(relu) at write_programs.py:36"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %18 = "stablehlo.reduce"(%17, %7) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %30 = "stablehlo.maximum"(%arg9, %arg10) {glow.location = "jit(layers)/reduce_max at write_programs.py:37"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%30) {glow.location = "jit(layers)/reduce_max at write_programs.py:37"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(layers)/reduce_max at write_programs.py:37"} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %19 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(layers)/max at write_programs.py:37"} : (tensor<f32>) -> tensor<3xf32>
    %20 = "stablehlo.maximum"(%19, %18) {glow.location = "jit(layers)/max at write_programs.py:37"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "jit(layers)/broadcast_in_dim at write_programs.py:37"} : (tensor<3xf32>) -> tensor<3x1xf32>
    %22 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(layers)/sub at write_programs.py:37"} : (tensor<3x1xf32>) -> tensor<3x4xf32>
    %23 = "stablehlo.subtract"(%17, %22) {glow.location = "jit(layers)/sub at write_programs.py:37"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %24 = "stablehlo.exponential"(%23) {glow.location = "jit(layers)/exp at write_programs.py:37"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %25 = "stablehlo.reduce"(%24, %6) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %29 = "stablehlo.add"(%arg7, %arg8) {glow.location = "jit(layers)/reduce_sum at write_programs.py:37"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%29) {glow.location = "jit(layers)/reduce_sum at write_programs.py:37"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(layers)/reduce_sum at write_programs.py:37"} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "jit(layers)/broadcast_in_dim at write_programs.py:37"} : (tensor<3xf32>) -> tensor<3x1xf32>
    %27 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(layers)/div at write_programs.py:37"} : (tensor<3x1xf32>) -> tensor<3x4xf32>
    %28 = "stablehlo.divide"(%24, %27) {glow.location = "jit(layers)/div at write_programs.py:37"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%28) {glow.location = "jit(layers) at write_programs.py:117"} : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<3x6xf32>) -> tensor<3x6xf32>, sym_name = "relu", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<3x6xf32>):
    %3 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> {glow.location = "max"} : (tensor<f32>) -> tensor<3x6xf32>
    %5 = "stablehlo.maximum"(%arg1, %4) {glow.location = "max"} : (tensor<3x6xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
    "func.return"(%5) : (tensor<3x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<3x4xf32>) -> tensor<3x4xf32>, sym_name = "relu_0", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<3x4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> {glow.location = "max"} : (tensor<f32>) -> tensor<3x4xf32>
    %2 = "stablehlo.maximum"(%arg0, %1) {glow.location = "max"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%2) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
