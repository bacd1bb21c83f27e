"""Kernels of language models: positions, caches of keys and values, attention over them."""
