"""Benchmarks: see RESULTS.md."""
