"""The graph builder that all importers share."""

from glow_frontends.graph.cast import cast_to
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import NeedsHost, NeedsValue, RuleError
from glow_frontends.graph.values import (
    BoundedValue,
    Value,
    dtype_of_value,
    is_uniform,
    rank,
    shape,
    type_of,
    uniform,
)

__all__ = [
    "BoundedValue",
    "Emitter",
    "NeedsHost",
    "NeedsValue",
    "RuleError",
    "Value",
    "cast_to",
    "dtype_of_value",
    "is_uniform",
    "rank",
    "shape",
    "type_of",
    "uniform",
]
