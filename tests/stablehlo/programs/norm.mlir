"builtin.module"() <{sym_name = "jit_norm"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}, {glow.name = "scale"}, {glow.name = "offset"}], function_type = (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<3x8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg9: tensor<3x8xf32>, %arg10: tensor<8xf32>, %arg11: tensor<8xf32>):
    %23 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<f32>
    %24 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<f32>
    %25 = "stablehlo.constant"() <{value = dense<0.797884583> : tensor<f32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<f32>
    %26 = "stablehlo.constant"() <{value = dense<4.471500e-02> : tensor<f32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<f32>
    %27 = "stablehlo.constant"() <{value = dense<9.99999974E-6> : tensor<f32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<f32>
    %28 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<i32>
    %29 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> {glow.location = "jit(norm) at write_programs.py:117"} : () -> tensor<f32>
    %30 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> {glow.location = "jit(norm)/reduce_sum at write_programs.py:42"} : () -> tensor<f32>
    %31 = "stablehlo.reduce"(%arg9, %30) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg12: tensor<f32>, %arg13: tensor<f32>):
      %62 = "stablehlo.add"(%arg12, %arg13) {glow.location = "jit(norm)/reduce_sum at write_programs.py:42"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%62) {glow.location = "jit(norm)/reduce_sum at write_programs.py:42"} : (tensor<f32>) -> ()
    }) {glow.location = "jit(norm)/reduce_sum at write_programs.py:42"} : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %32 = "stablehlo.broadcast_in_dim"(%31) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "jit(norm)/broadcast_in_dim at write_programs.py:42"} : (tensor<3xf32>) -> tensor<3x1xf32>
    %33 = "stablehlo.broadcast_in_dim"(%29) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(norm)/div at write_programs.py:42"} : (tensor<f32>) -> tensor<3x1xf32>
    %34 = "stablehlo.divide"(%32, %33) {glow.location = "jit(norm)/div at write_programs.py:42"} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(norm)/sub at write_programs.py:42"} : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %36 = "stablehlo.subtract"(%arg9, %35) {glow.location = "jit(norm)/sub at write_programs.py:42"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %37 = "func.call"(%arg9, %28) <{callee = @_var}> {glow.location = "jit(norm)/jit(_var) at write_programs.py:43"} : (tensor<3x8xf32>, tensor<i32>) -> tensor<3x1xf32>
    %38 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<f32>) -> tensor<3x1xf32>
    %39 = "stablehlo.add"(%37, %38) {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %40 = "stablehlo.sqrt"(%39) {glow.location = "jit(norm)/sqrt at write_programs.py:43"} : (tensor<3x1xf32>) -> tensor<3x1xf32>
    %41 = "stablehlo.broadcast_in_dim"(%40) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(norm)/div at write_programs.py:43"} : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %42 = "stablehlo.divide"(%36, %41) {glow.location = "jit(norm)/div at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %43 = "stablehlo.broadcast_in_dim"(%arg10) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "jit(norm)/broadcast_in_dim at write_programs.py:43"} : (tensor<8xf32>) -> tensor<1x8xf32>
    %44 = "stablehlo.broadcast_in_dim"(%43) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<1x8xf32>) -> tensor<3x8xf32>
    %45 = "stablehlo.multiply"(%42, %44) {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %46 = "stablehlo.broadcast_in_dim"(%arg11) <{broadcast_dimensions = array<i64: 1>}> {glow.location = "jit(norm)/broadcast_in_dim at write_programs.py:43"} : (tensor<8xf32>) -> tensor<1x8xf32>
    %47 = "stablehlo.broadcast_in_dim"(%46) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<1x8xf32>) -> tensor<3x8xf32>
    %48 = "stablehlo.add"(%45, %47) {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %49 = "stablehlo.multiply"(%48, %48) {glow.location = "jit(norm)/integer_pow at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %50 = "stablehlo.multiply"(%49, %48) {glow.location = "jit(norm)/integer_pow at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %51 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<f32>) -> tensor<3x8xf32>
    %52 = "stablehlo.multiply"(%51, %50) {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %53 = "stablehlo.add"(%48, %52) {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %54 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<f32>) -> tensor<3x8xf32>
    %55 = "stablehlo.multiply"(%54, %53) {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %56 = "stablehlo.tanh"(%55) {glow.location = "jit(norm)/tanh at write_programs.py:43"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %57 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<f32>) -> tensor<3x8xf32>
    %58 = "stablehlo.add"(%57, %56) {glow.location = "jit(norm)/add at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %59 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<f32>) -> tensor<3x8xf32>
    %60 = "stablehlo.multiply"(%59, %58) {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %61 = "stablehlo.multiply"(%48, %60) {glow.location = "jit(norm)/mul at write_programs.py:43"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    "func.return"(%61) {glow.location = "jit(norm) at write_programs.py:117"} : (tensor<3x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<3x8xf32>, tensor<i32>) -> tensor<3x1xf32>, sym_name = "_var", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<3x8xf32>, %arg4: tensor<i32>):
    %3 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %6 = "stablehlo.reduce"(%arg3, %5) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %22 = "stablehlo.add"(%arg7, %arg8) {glow.location = "reduce_sum"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%22) {glow.location = "reduce_sum"} : (tensor<f32>) -> ()
    }) {glow.location = "reduce_sum"} : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "broadcast_in_dim"} : (tensor<3xf32>) -> tensor<3x1xf32>
    %8 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> {glow.location = "div"} : (tensor<f32>) -> tensor<3x1xf32>
    %9 = "stablehlo.divide"(%7, %8) {glow.location = "div"} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1>}> {glow.location = "sub"} : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %11 = "stablehlo.subtract"(%arg3, %10) {glow.location = "sub"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %12 = "stablehlo.multiply"(%11, %11) {glow.location = "square"} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %13 = "stablehlo.convert"(%arg4) {glow.location = "convert_element_type"} : (tensor<i32>) -> tensor<f32>
    %14 = "stablehlo.subtract"(%4, %13) {glow.location = "sub"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %15 = "stablehlo.reduce"(%12, %5) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %21 = "stablehlo.add"(%arg5, %arg6) {glow.location = "reduce_sum"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%21) {glow.location = "reduce_sum"} : (tensor<f32>) -> ()
    }) {glow.location = "reduce_sum"} : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %16 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64: 0>}> {glow.location = "broadcast_in_dim"} : (tensor<3xf32>) -> tensor<3x1xf32>
    %17 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> {glow.location = "div"} : (tensor<f32>) -> tensor<3x1xf32>
    %18 = "stablehlo.divide"(%16, %17) {glow.location = "div"} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %19 = "stablehlo.compare"(%14, %5) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> {glow.location = "gt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %20 = "func.call"(%19, %18, %3) <{callee = @_where}> {glow.location = "jit(_where)"} : (tensor<i1>, tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
    "func.return"(%20) : (tensor<3x1xf32>) -> ()
  }) {glow.location = "write_programs.py:43"} : () -> ()
  "func.func"() <{function_type = (tensor<i1>, tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>, sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i1>, %arg1: tensor<3x1xf32>, %arg2: tensor<f32>):
    %0 = "stablehlo.convert"(%arg2) {glow.location = "convert_element_type"} : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> {glow.location = "broadcast_in_dim"} : (tensor<f32>) -> tensor<3x1xf32>
    %2 = "stablehlo.select"(%arg0, %arg1, %1) {glow.location = "select_n"} : (tensor<i1>, tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    "func.return"(%2) : (tensor<3x1xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
