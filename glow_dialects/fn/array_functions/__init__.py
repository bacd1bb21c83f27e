"""Functions of arrays named as in NumPy: what graph operators they are made of."""
