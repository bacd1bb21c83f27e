"""The dialects as xDSL loads them: `glow`, `glow_instr` and `quant`."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from xdsl.context import Context
from xdsl.ir import Dialect, Operation

from glow_dialects.core.attributes import BitsAttr, ResourceAttr
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.size_text import SizesAttr, SymbolsAttr
from glow_dialects.core.token import TokenType
from glow_dialects.core.types import UniformQuantizedType


def operations(cards: Sequence[ModuleType], base: type[Operation]) -> dict[str, type[Operation]]:
    """The operations below `base` that some cards define or import, by name, instructions too."""
    known: dict[str, type[Operation]] = {}
    for card in cards:
        for value in vars(card).values():
            node = isinstance(value, type) and issubclass(value, GraphOp)
            instruction = value.INSTR if node and not issubclass(base, GraphOp) else None
            for kind in (value, instruction):
                if isinstance(kind, type) and issubclass(kind, base) and hasattr(kind, "name"):
                    known.setdefault(kind.name, kind)
    return known


def card_ops(base: type[Operation]) -> list[type[Operation]]:
    """The operations below `base` that the cards define, each once."""
    from glow_dialects.ops import CARDS

    return list(operations(CARDS, base).values())


def _glow_structure() -> Dialect:
    """The structure of every graph (functions, symbols), without the operators."""
    from glow_dialects.ops.control import IfOp, LoopOp, YieldOp
    from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp

    structure: list[type[Operation]] = [
        ConstantOp,
        FuncOp,
        GetOp,
        IfOp,
        LoopOp,
        PlaceholderOp,
        SaveOp,
        YieldOp,
    ]
    return Dialect("glow", structure, [BitsAttr, ResourceAttr, SizesAttr, SymbolsAttr])


def _instr_structure() -> Dialect:
    """The structure of instruction functions (memory, lives), without the cards' instructions."""
    from glow_dialects.instr.loops import ForOp, YieldOp
    from glow_dialects.instr.memory import (
        AllocOp,
        CopyOp,
        DeallocOp,
        InstrFuncOp,
        StartCopyOp,
        ViewOp,
        WaitOp,
        WeightOp,
    )

    structure: list[type[Operation]] = [
        AllocOp,
        CopyOp,
        DeallocOp,
        ForOp,
        InstrFuncOp,
        StartCopyOp,
        ViewOp,
        WaitOp,
        WeightOp,
        YieldOp,
    ]
    return Dialect("glow_instr", structure, [TokenType])


def get_glow() -> Dialect:
    """The graph dialect."""
    structure = _glow_structure()
    return Dialect("glow", [*structure.operations, *card_ops(GraphOp)], list(structure.attributes))


def get_glow_instr() -> Dialect:
    """The instruction dialect."""
    structure = _instr_structure()
    return Dialect("glow_instr", [*structure.operations, *card_ops(InstrOp)], list(structure.attributes))


def get_glow_fn() -> Dialect:
    """The functional dialect."""
    from glow_dialects.fn.dialect import get_glow_fn as dialect

    return dialect()


def get_quant() -> Dialect:
    """MLIR's quantised types."""
    return Dialect("quant", [], [UniformQuantizedType])


def operation_names(ctx: Context, dialect: str) -> list[str]:
    """The names of all operations of a dialect that a context has, in order; none where it has no such."""
    ours = {"glow": get_glow, "glow_instr": get_glow_instr}  # of which contexts load what is used
    whole = ours[dialect]() if dialect in ours else ctx.get_optional_dialect(dialect)
    return [] if whole is None else sorted(op.name for op in whole.operations)


class GlowContext(Context):
    """A context that imports an operator's card when a program first names the operator."""

    def get_optional_op(self, name: str, *, dialect_stack: Sequence[str] = ()) -> type[Operation] | None:
        from glow_dialects.ops import card_of

        for candidate in (name, *(f"{d}.{name}" for d in dialect_stack)):
            dialect, _, operator = candidate.partition(".")
            base = {"glow": GraphOp, "glow_instr": InstrOp}.get(dialect)
            card = card_of(operator) if base is not None else None
            if base is not None and card is not None:
                self._get_known_op(candidate)  # loads the dialect's structure
                for op in operations([card], base).values():
                    self._loaded_ops.setdefault(op.name, op)
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    def clone(self) -> GlowContext:
        """A copy that may be changed on its own."""
        clone = GlowContext()
        vars(clone).update(vars(super().clone()))
        return clone


def context() -> Context:
    """A context with builtin and all of our dialects, loaded on first use."""
    from xdsl.dialects.builtin import Builtin

    ctx = GlowContext()
    ctx.load_dialect(Builtin)
    ctx.register_dialect("glow", _glow_structure)
    ctx.register_dialect("glow_instr", _instr_structure)
    ctx.register_dialect("glow_fn", get_glow_fn)
    ctx.register_dialect("quant", get_quant)
    return ctx
