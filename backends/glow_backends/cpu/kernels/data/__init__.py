"""Data movement: copies, gathers, sorting, resampling."""
