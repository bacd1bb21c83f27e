"""Kernels by family: specs, plans and emitters of LLVM IR, with the operators and layout rules of each."""
