"""Quantisation: profiles, calibration, and passes."""
