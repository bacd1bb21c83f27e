"""What programs are: the dialects and the operator cards."""
