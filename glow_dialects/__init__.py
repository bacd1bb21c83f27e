"""Programs: the dialects and the operator cards."""
