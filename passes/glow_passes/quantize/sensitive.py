"""Values that integers must not round: what a logarithm, root or quotient magnifies afterwards."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MulOp, PowOp, SubOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.module import FuncOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reduce import ReduceMeanOp, ReduceSumOp, ReduceSumSquareOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.unary_math import (
    AbsOp,
    Log1pOp,
    LogOp,
    NegOp,
    ReciprocalOp,
    RsqrtOp,
    SqrtOp,
)
from glow_passes.quantize.fold_conversions import MOVES

#: Small numbers matter to these as much as large ones.
MAGNIFYING = (LogOp, Log1pOp, SqrtOp, RsqrtOp, ReciprocalOp)
#: What hands small numbers on: linear operators, squares, moves. Activations do not.
LINEAR = (
    *MOVES,
    AbsOp,
    AddOp,
    BatchMatmulOp,
    ConvOp,
    FullyConnectedOp,
    MatmulOp,
    MulOp,
    NegOp,
    PadOp,
    PowOp,
    ReduceMeanOp,
    ReduceSumOp,
    ReduceSumSquareOp,
    SubOp,
    *MAGNIFYING,
)


#: What small numbers of a sum or a variance go through on their way, layers left out.
LAYERS = (BatchMatmulOp, ConvOp, FullyConnectedOp, MatmulOp)
BETWEEN_LAYERS = (ClipOp, MaxOp, ReluOp, *(kind for kind in LINEAR if kind not in LAYERS))


def sensitive(function: FuncOp) -> set[Operation]:
    """Operators whose results reach a logarithm, root or denominator by linear operators alone.

    The spectrograms at the front of audio networks: 8 bits hold their loudest numbers only.
    """
    found: set[Operation] = set()
    for op in function.body.block.ops:
        if isinstance(op, MAGNIFYING):
            _follow(op.operands[0].owner, found)
        elif isinstance(op, DivOp):
            divisor: Any = op.operands[1]
            _follow(divisor.owner, found)
    return found


def magnified(function: FuncOp) -> set[Operation]:
    """What logarithms, roots and quotients are made of, back to the layers before: a variance, say.

    Squares overflow 16-bit floats, and small differences of them vanish there. What a logarithm reads
    may be small throughout, as in a spectrogram: the layers that made it belong to it.
    """
    found: set[Operation] = set()
    whole: set[Operation] = set()
    for op in function.body.block.ops:
        if isinstance(op, (*MAGNIFYING, DivOp)):
            found.add(op)
            divisor: Any = op.operands[-1]
            _follow(divisor.owner, found, (*BETWEEN_LAYERS, DivOp))
            if isinstance(op, LogOp | Log1pOp):
                _follow(divisor.owner, whole, (*BETWEEN_LAYERS, *LAYERS, DivOp))
    return found | whole


def _follow(start: Any, found: set[Operation], through: tuple[type[GraphOp], ...] = LINEAR) -> None:
    stack = [start]
    while stack:
        op = stack.pop()
        if not isinstance(op, GraphOp) or op in found or not isinstance(op, through):
            continue
        found.add(op)
        stack += [value.owner for value in op.operands]
