"builtin.module"() <{sym_name = "jit_bits"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}], function_type = (tensor<7xi32>) -> (tensor<7xui32>, tensor<7xi32>, tensor<7xi32>, tensor<7xui32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<7xi32>):
    %0 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.constant"() <{value = dense<19> : tensor<ui32>}> {glow.location = "jit(bits) at write_programs.py:117"} : () -> tensor<ui32>
    %2 = "stablehlo.constant"() <{value = dense<13> : tensor<ui32>}> {glow.location = "jit(bits) at write_programs.py:117"} : () -> tensor<ui32>
    %3 = "stablehlo.bitcast_convert"(%arg0) {glow.location = "jit(bits)/bitcast_convert_type at write_programs.py:80"} : (tensor<7xi32>) -> tensor<7xui32>
    %4 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(bits)/shift_left at write_programs.py:81"} : (tensor<ui32>) -> tensor<7xui32>
    %5 = "stablehlo.shift_left"(%3, %4) {glow.location = "jit(bits)/shift_left at write_programs.py:81"} : (tensor<7xui32>, tensor<7xui32>) -> tensor<7xui32>
    %6 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(bits)/shift_right_logical at write_programs.py:81"} : (tensor<ui32>) -> tensor<7xui32>
    %7 = "stablehlo.shift_right_logical"(%3, %6) {glow.location = "jit(bits)/shift_right_logical at write_programs.py:81"} : (tensor<7xui32>, tensor<7xui32>) -> tensor<7xui32>
    %8 = "stablehlo.or"(%5, %7) {glow.location = "jit(bits)/or at write_programs.py:81"} : (tensor<7xui32>, tensor<7xui32>) -> tensor<7xui32>
    %9 = "stablehlo.xor"(%3, %8) {glow.location = "jit(bits)/xor at write_programs.py:82"} : (tensor<7xui32>, tensor<7xui32>) -> tensor<7xui32>
    %10 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(bits)/shift_right_logical at write_programs.py:82"} : (tensor<i32>) -> tensor<7xi32>
    %11 = "stablehlo.shift_right_logical"(%arg0, %10) {glow.location = "jit(bits)/shift_right_logical at write_programs.py:82"} : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi32>
    %12 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> {glow.location = "jit(bits)/shift_right_arithmetic at write_programs.py:82"} : (tensor<i32>) -> tensor<7xi32>
    %13 = "stablehlo.shift_right_arithmetic"(%arg0, %12) {glow.location = "jit(bits)/shift_right_arithmetic at write_programs.py:82"} : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi32>
    %14 = "stablehlo.popcnt"(%3) {glow.location = "jit(bits)/population_count at write_programs.py:82"} : (tensor<7xui32>) -> tensor<7xui32>
    "func.return"(%9, %11, %13, %14) {glow.location = "jit(bits) at write_programs.py:117"} : (tensor<7xui32>, tensor<7xi32>, tensor<7xi32>, tensor<7xui32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
