"""gather_nd: slices of a tensor, each chosen by a tuple of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again, whole
from glow_dialects.core.properties import int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.indexing import check_indices, checked_prop, grid, wrapped


@graph_op
class GatherNdOp(PureOp):
    """result[b, i] = data[b, indices[b, i]]: the last axis of `indices` holds index tuples.

    The first `batch_dims` axes of both operands are walked together. Negative indices count from
    the end.
    """

    name = "glow.gather_nd"
    batch_dims = int_prop(0)
    checked = checked_prop()
    data = operand_def(Tensor)
    indices = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        data, indices, batch = shape_of(self.data), shape_of(self.indices), self.batch_dims
        check_indices(self.name, self.indices)
        if not indices or not 0 <= batch < len(indices) or data[:batch] != indices[:batch]:
            raise VerifyException(
                f"glow.gather_nd: {self.data.type} and {self.indices.type} do not share {batch} batch axes"
                "; the first axes must be equal"
            )
        depth = indices[-1]
        if depth > len(data) - batch:
            raise VerifyException(
                f"glow.gather_nd: index tuples of {depth} into {len(data) - batch} axes of {self.data.type}"
                "; give at most one index per axis"
            )
        return [tensor((*indices[:-1], *data[batch + depth :]), element_of(self.data))]

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        batch: int = self.batch_dims
        if not batch and not flags[0]:
            return again(self, x, size, b)
        values = [whole(v, f, size, b) for v, f in zip(x, flags, strict=True)]
        return again(self, values, size, b, batch_dims=batch + 1)

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.scatter_nd import ScatterNdOp

        full = whole_tuples(self.indices, self.batch_dims, b)
        return [b(ScatterNdOp(b.splat(0, self.data), full, grads[0], reduction="add")), None]

    def reference(self, result: Array, data: Array, indices: Array) -> None:
        where = places(self, data.shape, indices, self.batch_dims)
        result[...] = data[where] if where else np.broadcast_to(data, result.shape)


def whole_tuples(indices: SSAValue, batch: int, b: Builder) -> SSAValue:
    """Index tuples with the indices of the batch axes in front."""
    from glow_dialects.ops.concat import ConcatOp

    if not batch:
        return indices
    shape = shape_of(indices)[:-1]
    parts = [np.broadcast_to(p, shape) for p in grid(shape, batch)]
    front = b.constant(np.stack(parts, -1).astype(dtype_of(typed(indices))))
    return b(ConcatOp([front, indices], axis=len(shape)))


def places(op: Any, shape: Sequence[int], indices: Array, batch: int = 0) -> tuple[Array, ...]:
    """NumPy index arrays for index tuples into axes `batch` and on of a tensor of `shape`."""
    lead = indices.shape[:-1]
    tuples = [wrapped(op, indices[..., i], shape[batch + i]) for i in range(indices.shape[-1])]
    return (*(np.broadcast_to(g, lead) for g in grid(lead, batch)), *tuples)


_PAIRS = np.array([[0, 1], [2, 3], [0, 1], [-1, 0]], np.int64)
SAMPLES = (
    Sample(GatherNdOp, (random(3, 4), _PAIRS)),
    Sample(GatherNdOp, (random(3, 4, 2), _PAIRS)),
    Sample(GatherNdOp, (random(3, 4), np.array([[[2]], [[0]]], np.int32))),
    Sample(
        GatherNdOp,
        (random(2, 3, 4), random(2, 5, 1, dtype="int64", low=0, high=3)),
        {"batch_dims": 1},
    ),
    Sample(
        GatherNdOp,
        (random(2, 3, 4, 2), random(2, 3, 1, dtype="int64", low=0, high=4)),
        {"batch_dims": 2},
    ),
)
