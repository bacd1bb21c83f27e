"builtin.module"() <{sym_name = "jit_spectrum"}> ({
  "func.func"() <{arg_attrs = [{glow.name = "x"}], function_type = (tensor<8xf32>) -> tensor<8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg1: tensor<8xf32>):
    %2 = "func.call"(%arg1) <{callee = @fft}> {glow.location = "jit(spectrum)/jit(fft) at write_programs.py:92"} : (tensor<8xf32>) -> tensor<8xcomplex<f32>>
    %3 = "stablehlo.abs"(%2) {glow.location = "jit(spectrum)/abs at write_programs.py:92"} : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
    "func.return"(%3) {glow.location = "jit(spectrum) at write_programs.py:117"} : (tensor<8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<8xf32>) -> tensor<8xcomplex<f32>>, sym_name = "fft", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8xf32>):
    %0 = "stablehlo.convert"(%arg0) {glow.location = "convert_element_type"} : (tensor<8xf32>) -> tensor<8xcomplex<f32>>
    %1 = "stablehlo.fft"(%0) <{fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type FFT>}> {glow.location = "fft"} : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
    "func.return"(%1) : (tensor<8xcomplex<f32>>) -> ()
  }) {glow.location = "write_programs.py:92"} : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
