"""The interpreter: each instruction is its NumPy reference."""
