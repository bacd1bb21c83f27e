"""Training functions: gradients, updates, rematerialisation."""
