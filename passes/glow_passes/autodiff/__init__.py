"""Training functions: gradients, updates, what is kept and what is computed again."""
