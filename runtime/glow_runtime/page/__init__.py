"""A compilation as a page to look at: one HTML file that needs nothing else."""
