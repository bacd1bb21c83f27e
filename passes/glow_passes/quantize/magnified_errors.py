"""Values that integers must not round, as a logarithm, root or quotient magnifies the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.module import FuncOp
from glow_dialects.ops.unary_math import Log1pOp, LogOp


def _hands_on(op: GraphOp) -> bool:
    """Whether small numbers that the operator reads matter in its result as much as large ones."""
    return op.HOMOGENEOUS or op.MOVES_ELEMENTS or op.MAGNIFIES == 0


def _within_layers(op: GraphOp) -> bool:
    """Whether sums and variances go through the operator on their way: it is no layer."""
    return not op.LAYER and (_hands_on(op) or op.CLAMPS or op.MAGNIFIES is not None)


def sensitive(function: FuncOp) -> set[Operation]:
    """Operators whose results reach a logarithm, root or denominator by linear operators alone.

    The spectrograms at the front of audio networks: 8 bits hold their loudest numbers only.
    """
    ops: set[Operation] = set()
    for op in function.body.block.ops:
        if isinstance(op, GraphOp) and op.MAGNIFIES is not None:
            _follow(op.operands[op.MAGNIFIES].owner, ops, _hands_on)
    return ops


def magnified(function: FuncOp) -> set[Operation]:
    """The operands of logarithms, roots and quotients, back to the layers before: a variance, say.

    Squares overflow 16-bit floats, and small differences of them vanish there. What a logarithm reads
    may be small throughout, as in a spectrogram: the layers that made it belong to it.
    """
    magnifiers: set[Operation] = set()
    before: set[Operation] = set()
    spectra: set[Operation] = set()
    for op in function.body.block.ops:
        if isinstance(op, GraphOp) and op.MAGNIFIES is not None:
            magnifiers.add(op)  # not in `before`: where another one reads it, all that it reads belongs there
            operand = op.operands[op.MAGNIFIES]
            _follow(operand.owner, before, _within_layers)
            if isinstance(op, LogOp | Log1pOp):
                _follow(operand.owner, spectra, lambda op: op.LAYER or _within_layers(op))
    return magnifiers | before | spectra


def _follow(start: Any, reached: set[Operation], through: Callable[[GraphOp], bool]) -> None:
    stack = [start]
    while stack:
        op = stack.pop()
        if not isinstance(op, GraphOp) or op in reached or not through(op):
            continue
        reached.add(op)
        stack += [value.owner for value in op.operands]
