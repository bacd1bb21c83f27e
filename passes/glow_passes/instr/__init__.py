"""Passes on instructions: copies, shared buffers, lives, places in the arena."""
