"""Partitions: one graph function as several, which devices run one after another or side by side."""
