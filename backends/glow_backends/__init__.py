"""Backends: instructions become something that runs."""
