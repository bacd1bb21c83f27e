"""Python functions in: their source becomes `glow_fn`."""

from glow_frontends.python.errors import FunctionError
from glow_frontends.python.importer import import_function

__all__ = ["FunctionError", "import_function"]
