"""Kernels by family: specs, plans and emitters of LLVM IR."""
