"""The operators of `glow_cpu`, each with its instruction, as the passes of this backend insert them."""
