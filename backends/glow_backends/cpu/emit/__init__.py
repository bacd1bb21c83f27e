"""The vocabulary of kernels: builders, vectors, arithmetic, blocks of registers."""
