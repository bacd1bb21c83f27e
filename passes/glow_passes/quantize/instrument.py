"""glow-instrument: save every float value, for inspection after a run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.types import typed
from glow_dialects.ops.module import FuncOp, PlaceholderOp, SaveOp, functions
from glow_passes.contract import GraphPass
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.profile import observed

#: Outputs of an instrumented module: `profile.` and the value's name, with a number where that is taken.
PREFIX = "profile."


def instrument(module: ModuleOp, function: FuncOp, wanted: Collection[str] | None = None) -> list[str]:
    """Save every observed value of `function`, or those wanted, to an output each; the values' names."""
    names: list[str] = []
    symbols = Symbols(module)
    for name, value in observed(function, module).items():
        if wanted is not None and name not in wanted:
            continue
        place = PlaceholderOp.of(symbols.fresh(PREFIX + name), typed(value), "output")
        module.body.block.insert_op_before(place, function)
        function.body.block.add_op(SaveOp.of(value, place))
        names.append(name)
    return names


@dataclass(frozen=True)
class InstrumentPass(GraphPass):
    """Add a save for each float value: profiling works on every backend, with its own code."""

    name = "glow-instrument"
    BODIES = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(functions(op)):
            instrument(op, function)
