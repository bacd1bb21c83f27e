"""llvmlite ships no types; these name what the CPU backend uses, members left open."""

__version__: str
