"""Quantisation: profiles, calibration, and the passes that turn graphs to integers."""
