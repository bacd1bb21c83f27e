"""What each operation of StableHLO means in operators of the graph: one function an operation."""

from collections.abc import Sequence

from glow_frontends.graph import Emitter, RuleError, Value
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.rules import (
    control,
    convolution,
    dot,
    elementwise,
    gather,
    loops,
    reduce,
    scatter,
    shape,
    sort,
    windows,
)

_MODULES = (elementwise, shape, dot, reduce, windows, convolution, gather, scatter, sort, control, loops)
_RULES: dict[str, Rule] = {
    name if name.startswith(("chlo.", "func.")) else f"stablehlo.{name}": rule
    for module in (
        elementwise,
        shape,
        dot,
        reduce,
        windows,
        convolution,
        gather,
        scatter,
        sort,
        control,
        loops,
    )
    for name, rule in module.RULES.items()
}

#: Targets of custom calls that check sizes of inputs, as the program's own sizes do, or say where values lie.
_TELLING = (
    "shape_assertion",
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
)


def custom_call(g: Emitter, n: Node) -> Value | Sequence[Value]:
    """custom_call: what only tells something, and what has a rule; libraries have no meaning here."""
    target = n.text("call_target_name")
    rule = shape.first if target in _TELLING else _RULES.get(f"stablehlo.@{target}")
    if rule is None:
        raise RuleError(f"a call of '{target}', a library that this compiler does not have")
    return rule(g, n)


RULES = {**_RULES, "stablehlo.custom_call": custom_call}
