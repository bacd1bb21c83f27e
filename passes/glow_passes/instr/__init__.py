"""Passes on instructions: copies, buffer sharing, lifetimes, memory planning."""
