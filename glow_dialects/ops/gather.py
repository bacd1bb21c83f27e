"""gather: slices of a tensor along one axis, chosen by indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again, moved, reshaped
from glow_dialects.core.properties import check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor, typed
from glow_dialects.ops.indexing import check_indices, checked_prop, wrapped
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp, inverse


@graph_op
class GatherOp(PureOp):
    """np.take(data, indices, axis): the axis is replaced by the axes of `indices`.

    Negative indices count from the end.
    """

    name = "glow.gather"
    axis = int_prop(0)
    checked = checked_prop()
    data = operand_def(Tensor)
    indices = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, axis = shape_of(self.data), self.axis
        check_axis(self.name, axis, len(shape))
        check_indices(self.name, self.indices)
        return [tensor((*shape[:axis], *shape_of(self.indices), *shape[axis + 1 :]), element_of(self.data))]

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        axis: int = self.axis
        width = len(shape_of(self.indices))
        if not flags[1]:
            return again(self, x, size, b, axis=axis + 1)
        if not flags[0]:
            return [moved(b(GatherOp(*x, axis=axis, checked=self.checked)), axis, 0, b)]
        from glow_dialects.ops.gather_nd import GatherNdOp

        tuples = reshaped(x[1], (*shape_of(x[1]), 1), b)
        chosen = b(GatherNdOp(moved(x[0], axis + 1, 1, b), tuples, batch_dims=1, checked=self.checked))
        last = range(1 + width + axis, len(shape_of(chosen)))
        order = (0, *range(1 + width, 1 + width + axis), *range(1, 1 + width), *last)
        return [chosen if order == tuple(sorted(order)) else b(TransposeOp(chosen, permutation=order))]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        return [gathered_gradient(dy, typed(self.data), self.indices, self.axis, b), None]

    def reference(self, result: Array, data: Array, indices: Array) -> None:
        axis = self.axis
        result[...] = np.take(data, wrapped(self, indices, data.shape[axis]), axis)


def gathered_gradient(dy: SSAValue, kind: Tensor, indices: SSAValue, axis: int, b: Builder) -> SSAValue:
    """The sum of the slices of `dy` that were taken from each place of data of a type along `axis`."""
    from glow_dialects.ops.scatter_nd import ScatterNdOp

    shape, chosen = shape_of(kind), shape_of(indices)
    rest = (*shape[:axis], *shape[axis + 1 :])
    # the axes of the indices go first, so that each index names one row of a scatter
    width = len(chosen)
    order = (
        *range(axis, axis + width),
        *range(axis),
        *range(axis + width, len(shape) - 1 + width),
    )
    rows = b(ReshapeOp.to(b(TransposeOp(dy, permutation=order)), (math.prod(chosen), *rest)))
    places = b(ReshapeOp.to(indices, (math.prod(chosen), 1)))
    zeros = b.splat(0, tensor((shape[axis], *rest), element_of(kind)))
    total = b(ScatterNdOp(zeros, places, rows, reduction="add"))
    back = inverse((axis, *(i for i in range(len(shape)) if i != axis)))
    return b(TransposeOp(total, permutation=back))


def _indices(*values: int) -> Array:
    return np.array(values, np.int64)


SAMPLES = (
    Sample(GatherOp, (random(5, 3), _indices(4, 0, 0, -1))),
    Sample(GatherOp, (random(2, 5, 3), _indices(1, 1, 4, 0).reshape(2, 2)), {"axis": 1}),
    Sample(GatherOp, (random(2, 3, 4), np.array(2, np.int32)), {"axis": 2}),
    *(
        Sample(
            GatherOp,
            (random(4, 5, dtype="int32", low=0, high=5).astype(kind), _indices(1, -1)),
            {"axis": 1},
            smooth=False,
        )
        for kind in ("int8", "float16", "int64", "bool")
    ),
    Sample(GatherOp, (random(7), random(2, 3, dtype="int32", low=0, high=7))),
)
