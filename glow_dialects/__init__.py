"""Programs: the dialects and the operator definitions ("cards")."""
