"builtin.module"() <{sym_name = "jit_open_rows"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x", glow.shape = ["n", "4"]}], function_type = (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x4xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg6: tensor<?x4xf32>):
    %37 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %38 = "stablehlo.get_dimension_size"(%arg6) <{dimension = 0 : i64}> {glow.location = "dimension_size"} : (tensor<?x4xf32>) -> tensor<i32>
    %39 = "stablehlo.compare"(%38, %37) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> {glow.location = "ge"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.custom_call"(%39, %38) <{api_version = 2 : i32, call_target_name = "shape_assertion", has_side_effect = true}> {error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'n'. Using the following polymorphic shapes specifications: args[0].shape = (n, 4). Obtained dimension variables: 'n' = {0} from specification 'n' for dimension args[0].shape[0] (= {0}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details.", glow.location = "shape_assertion"} : (tensor<i1>, tensor<i32>) -> ()
    %40:3 = "func.call"(%38, %arg6) <{callee = @_wrapped_jax_export_main}> : (tensor<i32>, tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
    "func.return"(%40#0, %40#1, %40#2) : (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.global_constant = "n"}, {}], function_type = (tensor<i32>, tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x4xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "_wrapped_jax_export_main", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i32>, %arg1: tensor<?x4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<4> : tensor<1xi32>}> {glow.location = "jit(open_rows)/add at write_programs.py:97"} : () -> tensor<1xi32>
    %1 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> {glow.location = "jit(open_rows)/reduce_sum at write_programs.py:97"} : () -> tensor<f32>
    %2 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %3 = "stablehlo.constant"() <{value = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
    %4 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %5 = "stablehlo.convert"(%arg0) {glow.location = "jit(open_rows)/convert_element_type at write_programs.py:97"} : (tensor<i32>) -> tensor<i32>
    %6 = "stablehlo.multiply"(%5, %4) {glow.location = "jit(open_rows)/mul at write_programs.py:97"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %7 = "stablehlo.reshape"(%6) {glow.location = "jit(open_rows)/reshape at write_programs.py:97"} : (tensor<i32>) -> tensor<1xi32>
    %8 = "stablehlo.concatenate"(%7, %3) <{dimension = 0 : i64}> {glow.location = "jit(open_rows)/reshape at write_programs.py:97"} : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %9 = "stablehlo.dynamic_reshape"(%arg1, %8) {glow.location = "jit(open_rows)/reshape at write_programs.py:97"} : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x2xf32>
    %10 = "stablehlo.reduce"(%9, %2) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %36 = "stablehlo.maximum"(%arg4, %arg5) {glow.location = "jit(open_rows)/reduce_max at write_programs.py:97"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%36) {glow.location = "jit(open_rows)/reduce_max at write_programs.py:97"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(open_rows)/reduce_max at write_programs.py:97"} : (tensor<?x2xf32>, tensor<f32>) -> tensor<2xf32>
    %11 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(open_rows)/max at write_programs.py:97"} : (tensor<f32>) -> tensor<2xf32>
    %12 = "stablehlo.maximum"(%11, %10) {glow.location = "jit(open_rows)/max at write_programs.py:97"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %13 = "stablehlo.broadcast_in_dim"(%12) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "jit(open_rows)/broadcast_in_dim at write_programs.py:97"} : (tensor<2xf32>) -> tensor<1x2xf32>
    %14 = "stablehlo.convert"(%arg0) {glow.location = "jit(open_rows)/convert_element_type at write_programs.py:97"} : (tensor<i32>) -> tensor<i32>
    %15 = "stablehlo.multiply"(%14, %4) {glow.location = "jit(open_rows)/mul at write_programs.py:97"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %16 = "stablehlo.reshape"(%15) {glow.location = "jit(open_rows)/sub at write_programs.py:97"} : (tensor<i32>) -> tensor<1xi32>
    %17 = "stablehlo.concatenate"(%16, %3) <{dimension = 0 : i64}> {glow.location = "jit(open_rows)/sub at write_programs.py:97"} : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %18 = "stablehlo.dynamic_broadcast_in_dim"(%13, %17) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(open_rows)/sub at write_programs.py:97"} : (tensor<1x2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
    %19 = "stablehlo.subtract"(%9, %18) {glow.location = "jit(open_rows)/sub at write_programs.py:97"} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
    %20 = "stablehlo.exponential"(%19) {glow.location = "jit(open_rows)/exp at write_programs.py:97"} : (tensor<?x2xf32>) -> tensor<?x2xf32>
    %21 = "stablehlo.reduce"(%20, %1) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %35 = "stablehlo.add"(%arg2, %arg3) {glow.location = "jit(open_rows)/reduce_sum at write_programs.py:97"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%35) {glow.location = "jit(open_rows)/reduce_sum at write_programs.py:97"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(open_rows)/reduce_sum at write_programs.py:97"} : (tensor<?x2xf32>, tensor<f32>) -> tensor<2xf32>
    %22 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "jit(open_rows)/broadcast_in_dim at write_programs.py:97"} : (tensor<2xf32>) -> tensor<1x2xf32>
    %23 = "stablehlo.convert"(%arg0) {glow.location = "jit(open_rows)/convert_element_type at write_programs.py:97"} : (tensor<i32>) -> tensor<i32>
    %24 = "stablehlo.multiply"(%23, %4) {glow.location = "jit(open_rows)/mul at write_programs.py:97"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %25 = "stablehlo.reshape"(%24) {glow.location = "jit(open_rows)/div at write_programs.py:97"} : (tensor<i32>) -> tensor<1xi32>
    %26 = "stablehlo.concatenate"(%25, %3) <{dimension = 0 : i64}> {glow.location = "jit(open_rows)/div at write_programs.py:97"} : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %27 = "stablehlo.dynamic_broadcast_in_dim"(%22, %26) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(open_rows)/div at write_programs.py:97"} : (tensor<1x2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
    %28 = "stablehlo.divide"(%20, %27) {glow.location = "jit(open_rows)/div at write_programs.py:97"} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
    %29 = "stablehlo.convert"(%arg0) {glow.location = "jit(open_rows)/convert_element_type at write_programs.py:97"} : (tensor<i32>) -> tensor<f32>
    %30 = "stablehlo.reshape"(%arg0) {glow.location = "jit(open_rows)/add at write_programs.py:97"} : (tensor<i32>) -> tensor<1xi32>
    %31 = "stablehlo.concatenate"(%30, %0) <{dimension = 0 : i64}> {glow.location = "jit(open_rows)/add at write_programs.py:97"} : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %32 = "stablehlo.dynamic_broadcast_in_dim"(%29, %31) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(open_rows)/add at write_programs.py:97"} : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
    %33 = "stablehlo.add"(%arg1, %32) {glow.location = "jit(open_rows)/add at write_programs.py:97"} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %34 = "stablehlo.concatenate"(%arg1, %arg1) <{dimension = 0 : i64}> {glow.location = "jit(open_rows)/concatenate at write_programs.py:97"} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    "func.return"(%28, %33, %34) {glow.location = "jit(open_rows) at write_programs.py:117"} : (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
