"""Passes that show a program in the middle of a pipeline, and change nothing."""
