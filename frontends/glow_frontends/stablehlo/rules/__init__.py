"""What each operation of StableHLO means in operators of the graph: one function an operation."""

from glow_frontends.stablehlo.node import Rule
from glow_frontends.stablehlo.rules import (
    control,
    convolution,
    dot,
    elementwise,
    gather,
    reduce,
    scatter,
    shape,
    sort,
    windows,
)

RULES: dict[str, Rule] = {
    name if "." in name else f"stablehlo.{name}": rule
    for module in (elementwise, shape, dot, reduce, windows, convolution, gather, scatter, sort, control)
    for name, rule in module.RULES.items()
}
