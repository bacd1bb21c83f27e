"""Emitters of LLVM IR, one a kind of kernel, and what they are composed of."""
