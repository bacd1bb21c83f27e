"""Graph passes of the CPU backend: layout, fusion, choice of algorithms."""
