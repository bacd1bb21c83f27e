"""scatter_nd: a tensor with slices replaced or joined, each named by a tuple of indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again, numbers, reshaped, whole
from glow_dialects.core.properties import check_choice, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather_nd import GatherNdOp, places
from glow_dialects.ops.indexing import REDUCTIONS, check_indices, checked_prop, scatter
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp


@graph_op
class ScatterNdOp(PureOp):
    """`data` with data[indices[i]] joined with updates[i]; index tuples are the last axis.

    `reduction` is none (replace; the last of equal indices wins), add, mul, max or min. Negative
    indices count from the end.
    """

    name = "glow.scatter_nd"
    INPLACE = ("data",)
    reduction = str_prop("none")
    checked = checked_prop()
    data = operand_def(Tensor)
    indices = operand_def(Tensor)
    updates = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "reduction", self.reduction, REDUCTIONS)
        check_indices(self.name, self.indices)
        data, indices = shape_of(self.data), shape_of(self.indices)
        if not indices or indices[-1] > len(data):
            raise VerifyException(
                f"glow.scatter_nd: {self.indices.type} does not index {self.data.type}"
                "; give at most one index per axis"
            )
        want = tensor((*indices[:-1], *data[indices[-1] :]), element_of(self.data))
        if self.updates.type != want:
            raise VerifyException(
                f"glow.scatter_nd: updates are {self.updates.type}, the indices need {want}"
            )
        return [self.data.type]

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        data, indices, updates = (whole(v, f, size, b) for v, f in zip(x, flags, strict=True))
        shape = shape_of(indices)
        part = reshaped(numbers(size, b), (size, *(1,) * (len(shape) - 1)), b)
        part = b(ExpandOp(part, results=tensor((*shape[:-1], 1), element_of(part))))
        if element_of(part) != element_of(indices):
            part = b(CastOp(part, results=tensor(shape_of(part), element_of(indices))))
        tuples = b(ConcatOp([part, indices], axis=len(shape) - 1))
        return again(self, [data, tuples, updates], size, b)

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        def taken(value: SSAValue) -> SSAValue:
            return b(GatherNdOp(value, self.indices))

        if self.reduction == "none":
            zeros = b.splat(0, self.updates)
            own = written(shape_of(self.data), self.indices, taken(dy), b)
            return [b(ScatterNdOp(dy, self.indices, zeros)), None, own]

        def joined(data: Term, updates: Term, reduction: str) -> Term:
            return Term(b(ScatterNdOp(data.value, self.indices, updates.value, reduction=reduction)), b)

        pair = joined_gradient(self, dy, taken, joined, b)
        return [pair[0], None, pair[1]]

    def reference(self, result: Array, data: Array, indices: Array, updates: Array) -> None:
        where = places(self, data.shape, indices)
        scatter(result, data, where, updates, self.reduction)


def written(shape: Sequence[int], indices: SSAValue, dy: SSAValue, b: Builder) -> SSAValue:
    """`dy`, a slice for each index tuple, with 0 where a later tuple of a scatter is the same: it wins."""
    rows = shape_of(indices)[:-1]
    count = math.prod(rows)
    if count <= 1:
        return dy
    numbers = b.constant(np.arange(count).reshape(rows))
    table = b.splat(0, tensor(shape[: shape_of(indices)[-1]], element_of(numbers)))
    last = b(GatherNdOp(b(ScatterNdOp(table, indices, numbers)), indices))
    return masked(b(CmpEqOp(last, numbers)), dy, b)


def masked(mask: SSAValue, value: SSAValue, b: Builder) -> SSAValue:
    """A value with 0 where a mask along its first axes is false."""
    rows = shape_of(mask)
    wide = tensor((*rows, *(1,) * (len(shape_of(value)) - len(rows))), element_of(mask))
    return b(
        SelectOp(mask if wide == mask.type else b(ReshapeOp(mask, results=wide)), value, b.scalar(0, value))
    )


def joined_gradient(
    op: Any,
    dy: SSAValue,
    taken: Callable[[SSAValue], SSAValue],
    joined: Callable[[Term, Term, str], Term],
    b: Builder,
) -> tuple[SSAValue, SSAValue]:
    """Cotangents of data and updates of a scatter that reduces.

    `taken` gathers at its indices, `joined` is the scatter of other operands and with another reduction.
    Equal values of a maximum share the cotangent.
    """
    if op.reduction == "add":
        return dy, taken(dy)

    def at(value: Term) -> Term:
        return Term(taken(value.value), b)

    d, data, updates, result = (Term(v, b) for v in (dy, op.data, op.updates, op.result))
    if op.reduction == "mul":
        # The product of the others: zeros are counted, not divided by.
        hole, holes = data.equals(0), updates.equals(0)
        full, filled = hole.where(1, data), holes.where(1, updates)
        outer = d * joined(full, updates, "mul") / full
        own = holes.cast(d.element)
        count = at(joined(Term(b.splat(0, op.data), b), own, "add"))
        others = at(joined(data, filled, "mul")) / filled
        return outer.value, (at(d) * count.equals(own).where(others, 0)).value
    own = data.equals(result).cast(d.element)
    theirs = updates.equals(at(result)).cast(d.element)
    share = d / joined(own, theirs, "add")
    return (own * share).value, (theirs * at(share)).value


_ROWS = np.array([[2], [0]], np.int64)
_PAIRS = np.array([[0, 1], [2, -1], [1, 0]], np.int64)
SAMPLES = (
    Sample(ScatterNdOp, (random(3, 4), _ROWS, random(2, 4, seed=1))),
    Sample(ScatterNdOp, (random(3, 4), _PAIRS, random(3, seed=1))),
    Sample(ScatterNdOp, (random(4, 2), np.array([[1], [-3], [3], [1]]), random(4, 2, seed=2))),
    *(
        Sample(
            ScatterNdOp,
            (random(3, 4, 2, low=0.5, high=2), _PAIRS, random(3, 2, low=0.5, high=2, seed=1)),
            {"reduction": reduction},
        )
        for reduction in REDUCTIONS
    ),
    Sample(
        ScatterNdOp,
        (random(4), np.array([[1], [1], [3], [1]], np.int32), random(4, seed=2)),
        {"reduction": "add"},
    ),
)
