"""Loops over single elements."""
