"""Passes of the functional dialect."""
