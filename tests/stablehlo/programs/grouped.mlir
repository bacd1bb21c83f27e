"builtin.module"() <{sym_name = "jit_grouped"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "q"}, {glow.name = "k"}], function_type = (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x2xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3x4x5xf32>, %arg1: tensor<2x3x4x5xf32>):
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>}> {glow.location = "jit(grouped)/bqhd,bkhd->bhqk/dot_general at write_programs.py:87"} : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x4x3x3xf32>
    %1 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1, 2, 3], rhs_contracting_dimensions = [1, 2, 3]>}> {glow.location = "jit(grouped)/abcd,ebcd->ae/dot_general at write_programs.py:87"} : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x2xf32>
    "func.return"(%0, %1) {glow.location = "jit(grouped) at write_programs.py:117"} : (tensor<2x4x3x3xf32>, tensor<2x2xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
