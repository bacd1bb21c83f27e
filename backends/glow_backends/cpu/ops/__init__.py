"""The operators of `glow_cpu`, each with its instruction: what the passes of this backend make."""
