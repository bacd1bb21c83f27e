"""Loops as native code: a function of the module, run once for each turn."""
