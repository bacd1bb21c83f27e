"builtin.module"() <{sym_name = "jit_image"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}, {glow.name = "w"}], function_type = (tensor<2x6x6x3xf32>, tensor<3x3x3x4xf32>) -> (tensor<2x3x3x4xf32>, tensor<2x3x3x4xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x6x6x3xf32>, %arg1: tensor<3x3x3x4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<4.000000e+00> : tensor<f32>}> {glow.location = "jit(image) at write_programs.py:117"} : () -> tensor<f32>
    %1 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> {glow.location = "jit(image)/reduce_window_sum at write_programs.py:50"} : () -> tensor<f32>
    %2 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> {glow.location = "jit(image)/reduce_window_max at write_programs.py:49"} : () -> tensor<f32>
    %3 = "stablehlo.convolution"(%arg0, %arg1) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<1> : tensor<2x2xi64>}> {glow.location = "jit(image)/conv_general_dilated at write_programs.py:48"} : (tensor<2x6x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x6x6x4xf32>
    %4 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(image)/reduce_window_max at write_programs.py:49"} : (tensor<f32>) -> tensor<f32>
    %5 = "stablehlo.reduce_window"(%3, %4) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %11 = "stablehlo.maximum"(%arg4, %arg5) {glow.location = "jit(image)/reduce_window_max at write_programs.py:49"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%11) {glow.location = "jit(image)/reduce_window_max at write_programs.py:49"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(image)/reduce_window_max at write_programs.py:49"} : (tensor<2x6x6x4xf32>, tensor<f32>) -> tensor<2x3x3x4xf32>
    %6 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(image)/reduce_window_sum at write_programs.py:50"} : (tensor<f32>) -> tensor<f32>
    %7 = "stablehlo.reduce_window"(%3, %6) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %10 = "stablehlo.add"(%arg2, %arg3) {glow.location = "jit(image)/reduce_window_sum at write_programs.py:50"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) {glow.location = "jit(image)/reduce_window_sum at write_programs.py:50"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(image)/reduce_window_sum at write_programs.py:50"} : (tensor<2x6x6x4xf32>, tensor<f32>) -> tensor<2x3x3x4xf32>
    %8 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(image)/div at write_programs.py:50"} : (tensor<f32>) -> tensor<2x3x3x4xf32>
    %9 = "stablehlo.divide"(%7, %8) {glow.location = "jit(image)/div at write_programs.py:50"} : (tensor<2x3x3x4xf32>, tensor<2x3x3x4xf32>) -> tensor<2x3x3x4xf32>
    "func.return"(%5, %9) {glow.location = "jit(image) at write_programs.py:117"} : (tensor<2x3x3x4xf32>, tensor<2x3x3x4xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
