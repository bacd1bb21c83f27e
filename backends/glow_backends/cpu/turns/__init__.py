"""Loops as native code: a function of the module, called for each iteration."""
