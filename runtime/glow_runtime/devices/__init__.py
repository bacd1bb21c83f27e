"""Devices, each behind a manager of its kind."""
