"builtin.module"() <{sym_name = "jit_loops"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}], function_type = (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<i32>, tensor<3xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg7: tensor<4x3xf32>):
    %8 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %9 = "stablehlo.constant"() <{value = dense<1.000000e+02> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> {glow.location = "jit(loops) at write_programs.py:117"} : () -> tensor<f32>
    %11 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %12 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
    %13 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %14 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(loops)/broadcast_in_dim at write_programs.py:71"} : (tensor<f32>) -> tensor<3xf32>
    %16 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(loops)/broadcast_in_dim at write_programs.py:71"} : (tensor<f32>) -> tensor<4x3xf32>
    %17:4 = "stablehlo.while"(%arg7, %13, %15, %16) ({
    ^bb0(%arg18: tensor<4x3xf32>, %arg19: tensor<i32>, %arg20: tensor<3xf32>, %arg21: tensor<4x3xf32>):
      %38 = "stablehlo.compare"(%arg19, %12) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(loops)/while/cond/lt at write_programs.py:71"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%38) {glow.location = "jit(loops)/while at write_programs.py:71"} : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg14: tensor<4x3xf32>, %arg15: tensor<i32>, %arg16: tensor<3xf32>, %arg17: tensor<4x3xf32>):
      %34 = "func.call"(%arg14, %arg15) <{callee = @dynamic_index_in_dim}> {glow.location = "jit(loops)/while/body/jit(dynamic_index_in_dim) at write_programs.py:71"} : (tensor<4x3xf32>, tensor<i32>) -> tensor<3xf32>
      %35:2 = "func.call"(%arg16, %34) <{callee = @closed_call}> {glow.location = "jit(loops)/while/body/closed_call at write_programs.py:71"} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
      %36 = "func.call"(%arg17, %35#1, %arg15) <{callee = @dynamic_update_index_in_dim}> {glow.location = "jit(loops)/while/body/jit(dynamic_update_index_in_dim) at write_programs.py:71"} : (tensor<4x3xf32>, tensor<3xf32>, tensor<i32>) -> tensor<4x3xf32>
      %37 = "stablehlo.add"(%arg15, %11) {glow.location = "jit(loops)/while/body/add at write_programs.py:71"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg14, %37, %35#0, %36) {glow.location = "jit(loops)/while at write_programs.py:71"} : (tensor<4x3xf32>, tensor<i32>, tensor<3xf32>, tensor<4x3xf32>) -> ()
    }) {glow.location = "jit(loops)/while at write_programs.py:71"} : (tensor<4x3xf32>, tensor<i32>, tensor<3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<i32>, tensor<3xf32>, tensor<4x3xf32>)
    %18 = "stablehlo.multiply"(%17#2, %17#2) {glow.location = "jit(loops)/integer_pow at write_programs.py:73"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %19 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(loops)/add at write_programs.py:73"} : (tensor<f32>) -> tensor<3xf32>
    %20 = "stablehlo.add"(%18, %19) {glow.location = "jit(loops)/add at write_programs.py:73"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %21:2 = "stablehlo.while"(%20, %13) ({
    ^bb0(%arg10: tensor<3xf32>, %arg11: tensor<i32>):
      %31 = "stablehlo.reduce"(%arg10, %14) <{dimensions = array<i64: 0>}> ({
      ^bb0(%arg12: tensor<f32>, %arg13: tensor<f32>):
        %33 = "stablehlo.add"(%arg12, %arg13) {glow.location = "jit(loops)/while/cond/reduce_sum at write_programs.py:73"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%33) {glow.location = "jit(loops)/while/cond/reduce_sum at write_programs.py:73"} : (tensor<f32>) -> ()
      }) {glow.location = "jit(loops)/while/cond/reduce_sum at write_programs.py:73"} : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
      %32 = "stablehlo.compare"(%31, %9) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "jit(loops)/while/cond/lt at write_programs.py:73"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%32) {glow.location = "jit(loops)/while at write_programs.py:72"} : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg8: tensor<3xf32>, %arg9: tensor<i32>):
      %28 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(loops)/while/body/mul at write_programs.py:73"} : (tensor<f32>) -> tensor<3xf32>
      %29 = "stablehlo.multiply"(%arg8, %28) {glow.location = "jit(loops)/while/body/mul at write_programs.py:73"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %30 = "stablehlo.add"(%arg9, %11) {glow.location = "jit(loops)/while/body/add at write_programs.py:73"} : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%29, %30) {glow.location = "jit(loops)/while at write_programs.py:72"} : (tensor<3xf32>, tensor<i32>) -> ()
    }) {glow.location = "jit(loops)/while at write_programs.py:72"} : (tensor<3xf32>, tensor<i32>) -> (tensor<3xf32>, tensor<i32>)
    %22 = "stablehlo.slice"(%17#2) <{limit_indices = array<i64: 1>, start_indices = array<i64: 0>, strides = array<i64: 1>}> {glow.location = "jit(loops)/slice at write_programs.py:75"} : (tensor<3xf32>) -> tensor<1xf32>
    %23 = "stablehlo.reshape"(%22) {glow.location = "jit(loops)/squeeze at write_programs.py:75"} : (tensor<1xf32>) -> tensor<f32>
    %24 = "stablehlo.compare"(%23, %14) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> {glow.location = "jit(loops)/gt at write_programs.py:75"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %25 = "stablehlo.convert"(%24) {glow.location = "jit(loops)/convert_element_type at write_programs.py:75"} : (tensor<i1>) -> tensor<i32>
    %26 = "stablehlo.case"(%25) ({
      %27 = "stablehlo.negate"(%17#2) {glow.location = "jit(loops)/cond/branch_0_fun/neg at write_programs.py:75"} : (tensor<3xf32>) -> tensor<3xf32>
      "stablehlo.return"(%27) {glow.location = "jit(loops)/cond at write_programs.py:75"} : (tensor<3xf32>) -> ()
    }, {
      "stablehlo.return"(%17#2) {glow.location = "jit(loops)/cond at write_programs.py:75"} : (tensor<3xf32>) -> ()
    }) {glow.location = "jit(loops)/cond at write_programs.py:75"} : (tensor<i32>) -> tensor<3xf32>
    "func.return"(%17#3, %21#0, %21#1, %26) {glow.location = "jit(loops) at write_programs.py:117"} : (tensor<4x3xf32>, tensor<3xf32>, tensor<i32>, tensor<3xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x3xf32>, tensor<i32>) -> tensor<3xf32>, sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg5: tensor<4x3xf32>, %arg6: tensor<i32>):
    %5 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %6 = "stablehlo.dynamic_slice"(%arg5, %arg6, %5) <{slice_sizes = array<i64: 1, 3>}> {glow.location = "dynamic_slice at write_programs.py:71"} : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %7 = "stablehlo.reshape"(%6) {glow.location = "squeeze at write_programs.py:71"} : (tensor<1x3xf32>) -> tensor<3xf32>
    "func.return"(%7) : (tensor<3xf32>) -> ()
  }) {glow.location = "write_programs.py:71"} : () -> ()
  "func.func"() <{function_type = (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>), sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<3xf32>, %arg4: tensor<3xf32>):
    %3 = "stablehlo.add"(%arg3, %arg4) {glow.location = "add at write_programs.py:71"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %4 = "stablehlo.multiply"(%arg3, %arg4) {glow.location = "mul at write_programs.py:71"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "func.return"(%3, %4) : (tensor<3xf32>, tensor<3xf32>) -> ()
  }) {glow.location = "write_programs.py:71"} : () -> ()
  "func.func"() <{function_type = (tensor<4x3xf32>, tensor<3xf32>, tensor<i32>) -> tensor<4x3xf32>, sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<i32>):
    %0 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "broadcast_in_dim at write_programs.py:71"} : (tensor<3xf32>) -> tensor<1x3xf32>
    %2 = "stablehlo.dynamic_update_slice"(%arg0, %1, %arg2, %0) {glow.location = "dynamic_update_slice at write_programs.py:71"} : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    "func.return"(%2) : (tensor<4x3xf32>) -> ()
  }) {glow.location = "write_programs.py:71"} : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
