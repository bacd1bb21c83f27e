"""The dialects as xDSL loads them: `glow`, `glow_instr` and `quant`."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.ir import Dialect, Operation

from glow_dialects.core.attributes import BitsAttr, ResourceAttr
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import UniformQuantizedType


def card_ops(base: type[Operation]) -> list[type[Operation]]:
    """The operations below `base` that the cards define, each once."""
    from glow_dialects.ops import CARDS

    found: dict[str, type[Operation]] = {}
    for card in CARDS:
        for value in vars(card).values():
            if isinstance(value, type) and issubclass(value, base) and hasattr(value, "name"):
                found.setdefault(value.name, value)
    return list(found.values())


def get_glow() -> Dialect:
    """The graph dialect."""
    from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp

    structure: list[type[Operation]] = [ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp]
    return Dialect("glow", structure + card_ops(GraphOp), [BitsAttr, ResourceAttr])


def get_glow_instr() -> Dialect:
    """The instruction dialect."""
    from glow_dialects.instr.memory import AllocOp, CopyOp, DeallocOp, InstrFuncOp, ViewOp, WeightOp

    structure: list[type[Operation]] = [AllocOp, CopyOp, DeallocOp, InstrFuncOp, ViewOp, WeightOp]
    return Dialect("glow_instr", structure + card_ops(InstrOp))


def get_quant() -> Dialect:
    """MLIR's quantised types."""
    return Dialect("quant", [], [UniformQuantizedType])


def context() -> Context:
    """A context with builtin and all of our dialects, loaded on first use."""
    from xdsl.dialects.builtin import Builtin

    made = Context()
    made.load_dialect(Builtin)
    made.register_dialect("glow", get_glow)
    made.register_dialect("glow_instr", get_glow_instr)
    made.register_dialect("quant", get_quant)
    return made
