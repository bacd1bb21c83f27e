"""Products of matrices, attention."""
