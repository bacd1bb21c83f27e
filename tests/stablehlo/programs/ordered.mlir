"builtin.module"() <{sym_name = "jit_ordered"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}], function_type = (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xi32>, tensor<4xi32>, tensor<4x2xf32>, tensor<4x2xi32>, tensor<4x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3][0]"}, {jax.result_info = "result[3][1]"}, {jax.result_info = "result[4]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg22: tensor<4x5xf32>):
    %51 = "func.call"(%arg22) <{callee = @sort}> {glow.location = "jit(ordered)/jit(sort) at write_programs.py:61"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %52 = "func.call"(%arg22) <{callee = @argsort}> {glow.location = "jit(ordered)/jit(argsort) at write_programs.py:62"} : (tensor<4x5xf32>) -> tensor<4x5xi32>
    %53 = "func.call"(%arg22) <{callee = @argmax}> {glow.location = "jit(ordered) at write_programs.py:63"} : (tensor<4x5xf32>) -> tensor<4xi32>
    %54:2 = "stablehlo.composite"(%arg22) <{composite_attributes = {k = 2 : i64}, decomposition = @chlo.top_k.impl, name = "chlo.top_k", version = 1 : i32}> {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<4x5xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %55 = "func.call"(%arg22) <{callee = @cumsum}> {glow.location = "jit(ordered)/jit(cumsum) at write_programs.py:65"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%51, %52, %53, %54#0, %54#1, %55) {glow.location = "jit(ordered) at write_programs.py:117"} : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<4xi32>, tensor<4x2xf32>, tensor<4x2xi32>, tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>), sym_name = "chlo.top_k.impl", sym_visibility = "private"}> ({
  ^bb0(%arg17: tensor<4x5xf32>):
    %46 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : () -> tensor<4x5xi32>
    %47:2 = "stablehlo.sort"(%arg17, %46) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg18: tensor<f32>, %arg19: tensor<f32>, %arg20: tensor<i32>, %arg21: tensor<i32>):
      %50 = "stablehlo.compare"(%arg18, %arg19) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction GT>}> {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%50) {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<i1>) -> ()
    }) {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<4x5xf32>, tensor<4x5xi32>) -> (tensor<4x5xf32>, tensor<4x5xi32>)
    %48 = "stablehlo.slice"(%47#0) <{limit_indices = array<i64: 4, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<4x5xf32>) -> tensor<4x2xf32>
    %49 = "stablehlo.slice"(%47#1) <{limit_indices = array<i64: 4, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<4x5xi32>) -> tensor<4x2xi32>
    "func.return"(%48, %49) {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : (tensor<4x2xf32>, tensor<4x2xi32>) -> ()
  }) {glow.location = "jit(ordered)/top_k at write_programs.py:64"} : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, sym_name = "sort", sym_visibility = "private"}> ({
  ^bb0(%arg14: tensor<4x5xf32>):
    %34 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %35 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %36 = "stablehlo.sort"(%arg14) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %37 = "stablehlo.compare"(%arg15, %35) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> {glow.location = "eq"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %38 = "stablehlo.select"(%37, %35, %arg15) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %39 = "stablehlo.compare"(%arg15, %arg15) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> {glow.location = "ne"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %40 = "stablehlo.select"(%39, %34, %38) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %41 = "stablehlo.compare"(%arg16, %35) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> {glow.location = "eq"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %42 = "stablehlo.select"(%41, %35, %arg16) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %43 = "stablehlo.compare"(%arg16, %arg16) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> {glow.location = "ne"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %44 = "stablehlo.select"(%43, %34, %42) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %45 = "stablehlo.compare"(%40, %44) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "lt_to"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%45) {glow.location = "sort"} : (tensor<i1>) -> ()
    }) {glow.location = "sort"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%36) : (tensor<4x5xf32>) -> ()
  }) {glow.location = "write_programs.py:61"} : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4x5xi32>, sym_name = "argsort", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<4x5xf32>):
    %18 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %19 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %20 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> {glow.location = "iota"} : () -> tensor<4x5xi32>
    %21 = "stablehlo.reverse"(%arg9) <{dimensions = array<i64: 0>}> {glow.location = "rev"} : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %22 = "stablehlo.reverse"(%20) <{dimensions = array<i64: 0>}> {glow.location = "rev"} : (tensor<4x5xi32>) -> tensor<4x5xi32>
    %23:2 = "stablehlo.sort"(%21, %22) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>, %arg12: tensor<i32>, %arg13: tensor<i32>):
      %25 = "stablehlo.compare"(%arg10, %19) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> {glow.location = "eq"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %26 = "stablehlo.select"(%25, %19, %arg10) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %27 = "stablehlo.compare"(%arg10, %arg10) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> {glow.location = "ne"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %28 = "stablehlo.select"(%27, %18, %26) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %29 = "stablehlo.compare"(%arg11, %19) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> {glow.location = "eq"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %30 = "stablehlo.select"(%29, %19, %arg11) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %31 = "stablehlo.compare"(%arg11, %arg11) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> {glow.location = "ne"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %32 = "stablehlo.select"(%31, %18, %30) {glow.location = "select_n"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %33 = "stablehlo.compare"(%28, %32) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "lt_to"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%33) {glow.location = "sort"} : (tensor<i1>) -> ()
    }) {glow.location = "sort"} : (tensor<4x5xf32>, tensor<4x5xi32>) -> (tensor<4x5xf32>, tensor<4x5xi32>)
    %24 = "stablehlo.reverse"(%23#1) <{dimensions = array<i64: 0>}> {glow.location = "rev"} : (tensor<4x5xi32>) -> tensor<4x5xi32>
    "func.return"(%24) : (tensor<4x5xi32>) -> ()
  }) {glow.location = "write_programs.py:62"} : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4xi32>, sym_name = "argmax", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<4x5xf32>):
    %5 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %6 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %7 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> {glow.location = "iota at write_programs.py:63"} : () -> tensor<4x5xi32>
    %8:2 = "stablehlo.reduce"(%arg4, %7, %6, %5) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<i32>, %arg7: tensor<f32>, %arg8: tensor<i32>):
      %9 = "stablehlo.compare"(%arg5, %arg7) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> {glow.location = "gt at write_programs.py:63"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %10 = "stablehlo.compare"(%arg5, %arg5) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> {glow.location = "ne at write_programs.py:63"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %11 = "stablehlo.or"(%9, %10) {glow.location = "or at write_programs.py:63"} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %12 = "stablehlo.compare"(%arg5, %arg7) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> {glow.location = "eq at write_programs.py:63"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %13 = "stablehlo.compare"(%arg6, %arg8) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> {glow.location = "lt at write_programs.py:63"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %14 = "stablehlo.and"(%12, %13) {glow.location = "and at write_programs.py:63"} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %15 = "stablehlo.or"(%11, %14) {glow.location = "or at write_programs.py:63"} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %16 = "stablehlo.select"(%11, %arg5, %arg7) {glow.location = "select_n at write_programs.py:63"} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %17 = "stablehlo.select"(%15, %arg6, %arg8) {glow.location = "select_n at write_programs.py:63"} : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%16, %17) {glow.location = "reduce at write_programs.py:63"} : (tensor<f32>, tensor<i32>) -> ()
    }) {glow.location = "reduce at write_programs.py:63"} : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    "func.return"(%8#1) {glow.location = "jit(ordered) at write_programs.py:63"} : (tensor<4xi32>) -> ()
  }) {glow.location = "jit(ordered) at write_programs.py:63"} : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, sym_name = "cumsum", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<4x5xf32>):
    %4 = "func.call"(%arg3) <{callee = @cumsum_0}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%4) : (tensor<4x5xf32>) -> ()
  }) {glow.location = "write_programs.py:65"} : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, sym_name = "cumsum_0", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> {glow.location = "reduce_window_sum"} : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> {glow.location = "reduce_window_sum"} : (tensor<f32>) -> tensor<f32>
    %2 = "stablehlo.reduce_window"(%arg0, %1) <{padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 4, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %3 = "stablehlo.add"(%arg1, %arg2) {glow.location = "reduce_window_sum"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%3) {glow.location = "reduce_window_sum"} : (tensor<f32>) -> ()
    }) {glow.location = "reduce_window_sum"} : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
    "func.return"(%2) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
