"""Functions of arrays named as in NumPy, in terms of graph operators."""
