"""StableHLO programs, as JAX exports them, become modules of the `glow` dialect."""

from glow_frontends.stablehlo.importer import import_stablehlo
from glow_frontends.stablehlo.jax_export import import_exported
from glow_frontends.stablehlo.text import is_stablehlo

__all__ = ["import_exported", "import_stablehlo", "is_stablehlo"]
