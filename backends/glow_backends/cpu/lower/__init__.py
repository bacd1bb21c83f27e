"""From descriptions of kernels (`glow_backends.nests`) to LLVM."""
