"""`glow_fn`, the functional dialect."""
