"builtin.module"() <{sym_name = "jit_indexed"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}, {glow.name = "i"}, {glow.name = "v"}], function_type = (tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<2x2xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<5x4xf32>, %arg1: tensor<3xi32>, %arg2: tensor<3x4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> {glow.location = "jit(indexed) at write_programs.py:117"} : () -> tensor<i32>
    %1 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> {glow.location = "jit(indexed) at write_programs.py:117"} : () -> tensor<i32>
    %2 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %5 = "stablehlo.compare"(%arg1, %4) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %6 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %7 = "stablehlo.add"(%arg1, %6) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %8 = "stablehlo.select"(%5, %7, %arg1) {glow.location = "jit(indexed)/select_n at write_programs.py:55"} : (tensor<3xi1>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "jit(indexed)/broadcast_in_dim at write_programs.py:55"} : (tensor<3xi32>) -> tensor<3x1xi32>
    %10 = "stablehlo.gather"(%arg0, %9) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> {glow.location = "jit(indexed)/gather at write_programs.py:55"} : (tensor<5x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
    %11 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %12 = "stablehlo.compare"(%arg1, %11) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %13 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %14 = "stablehlo.add"(%arg1, %13) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %15 = "stablehlo.select"(%12, %14, %arg1) {glow.location = "jit(indexed)/select_n at write_programs.py:55"} : (tensor<3xi1>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %16 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "jit(indexed)/broadcast_in_dim at write_programs.py:55"} : (tensor<3xi32>) -> tensor<3x1xi32>
    %17 = "stablehlo.scatter"(%arg0, %16, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %38 = "stablehlo.add"(%arg5, %arg6) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%38) {glow.location = "jit(indexed)/scatter-add at write_programs.py:55"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(indexed)/scatter-add at write_programs.py:55"} : (tensor<5x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
    %18 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %19 = "stablehlo.add"(%arg1, %18) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %20 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %21 = "stablehlo.compare"(%19, %20) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %22 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<i32>) -> tensor<3xi32>
    %23 = "stablehlo.add"(%19, %22) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %24 = "stablehlo.select"(%21, %23, %19) {glow.location = "jit(indexed)/select_n at write_programs.py:55"} : (tensor<3xi1>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %25 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "jit(indexed)/broadcast_in_dim at write_programs.py:55"} : (tensor<3xi32>) -> tensor<3x1xi32>
    %26 = "stablehlo.scatter"(%arg0, %25, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      "stablehlo.return"(%arg4) {glow.location = "jit(indexed)/scatter at write_programs.py:55"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(indexed)/scatter at write_programs.py:55"} : (tensor<5x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
    %27 = "stablehlo.slice"(%arg1) <{limit_indices = array<i64: 1>, start_indices = array<i64: 0>, strides = array<i64: 1>}> {glow.location = "jit(indexed)/slice at write_programs.py:55"} : (tensor<3xi32>) -> tensor<1xi32>
    %28 = "stablehlo.reshape"(%27) {glow.location = "jit(indexed)/squeeze at write_programs.py:55"} : (tensor<1xi32>) -> tensor<i32>
    %29 = "stablehlo.slice"(%arg1) <{limit_indices = array<i64: 2>, start_indices = array<i64: 1>, strides = array<i64: 1>}> {glow.location = "jit(indexed)/slice at write_programs.py:55"} : (tensor<3xi32>) -> tensor<1xi32>
    %30 = "stablehlo.reshape"(%29) {glow.location = "jit(indexed)/squeeze at write_programs.py:55"} : (tensor<1xi32>) -> tensor<i32>
    %31 = "stablehlo.compare"(%28, %3) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %32 = "stablehlo.add"(%28, %2) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %33 = "stablehlo.select"(%31, %32, %28) {glow.location = "jit(indexed)/select_n at write_programs.py:55"} : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %34 = "stablehlo.compare"(%30, %3) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(indexed)/lt at write_programs.py:55"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %35 = "stablehlo.add"(%30, %0) {glow.location = "jit(indexed)/add at write_programs.py:55"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %36 = "stablehlo.select"(%34, %35, %30) {glow.location = "jit(indexed)/select_n at write_programs.py:55"} : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %37 = "stablehlo.dynamic_slice"(%arg0, %33, %36) <{slice_sizes = array<i64: 2, 2>}> {glow.location = "jit(indexed)/dynamic_slice at write_programs.py:55"} : (tensor<5x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
    "func.return"(%10, %17, %26, %37) {glow.location = "jit(indexed) at write_programs.py:117"} : (tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<2x2xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
