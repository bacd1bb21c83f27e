"""StableHLO programs, as JAX exports them, become modules of the `glow` dialect."""

from glow_frontends.stablehlo.importer import import_stablehlo
from glow_frontends.stablehlo.jax_export import deserialized, import_exported

__all__ = ["deserialized", "import_exported", "import_stablehlo"]
