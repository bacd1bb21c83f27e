"""Devices: what programs run on, each behind a manager of its kind."""
