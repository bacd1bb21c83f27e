"""Builder: insertion of graph operators at a point, with the constants that gradients and rewrites need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import UNKNOWN, stand_for
from glow_dialects.core.types import Array, Tensor, element_of, tensor
from glow_dialects.ops import operator_class

_O = TypeVar("_O", bound=Operation)


class Builder:
    """Inserts operations at a fixed point, in order; those without a location get the builder's."""

    def __init__(self, point: InsertPoint, location: LocationAttr = UNKNOWN) -> None:
        self.point = point
        self.location = location
        self.inserted: list[Operation] = []

    @staticmethod
    def before(op: Operation) -> Builder:
        """Insert before `op`, on its behalf."""
        return Builder(InsertPoint.before(op), op.location)

    @staticmethod
    def after(op: Operation) -> Builder:
        """Insert after `op`, on its behalf."""
        return Builder(InsertPoint.after(op), op.location)

    @staticmethod
    def at_end(block: Block) -> Builder:
        """Append to `block`."""
        return Builder(InsertPoint.at_end(block))

    def insert(self, op: _O) -> _O:
        """Insert `op` and return it."""
        block = self.point.block
        if self.point.insert_before is not None:
            block.insert_op_before(op, self.point.insert_before)
        else:
            block.add_op(op)
        if op.location is UNKNOWN:
            op.location = self.location
        self.inserted.append(op)
        return op

    def __call__(self, op: GraphOp) -> SSAValue:
        """Insert a one-result operator and return its value: `y = b(ReluOp(x))`."""
        return self.insert(op).results[0]

    def splat(self, value: float | int | bool, like: SSAValue | Tensor) -> SSAValue:
        """A tensor of one value with the type of `like`."""
        kind: Attribute = like.type if isinstance(like, SSAValue) else like
        return self(operator_class("splat")(results=kind, value=float(value)))

    def scalar(self, value: float | int, like: SSAValue) -> SSAValue:
        """A rank-0 splat with the element type of `like`, for broadcasting."""
        return self.splat(value, tensor((), element_of(like)))

    def constant(self, array: Array | Sequence[int] | Sequence[float]) -> SSAValue:
        """A small constant tensor written in the IR."""
        return self(operator_class("literal").of(np.asarray(array)))


def decomposed(op: GraphOp) -> tuple[Sequence[SSAValue], list[Operation]] | None:
    """Put what `op` decomposes into in its place.

    Returns what stands for its results, and the new operators; None where `op` has no decomposition.
    """
    if not op.can_decompose():
        return None
    b = Builder.before(op)
    values = op.decompose(b)
    if values is None:
        return None
    for old, new in zip(op.results, values, strict=True):
        assert old.type == new.type, f"{op.name}: {old.type} decomposed to {new.type}"
        old.replace_all_uses_with(new)
    for part in b.inserted if op.attributes else ():
        if part.operands:
            stand_for(part, (op,))
    op.detach()
    op.erase()
    return values, b.inserted
