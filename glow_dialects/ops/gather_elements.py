"""gather_elements: elements chosen along one axis, an index each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.indexing import check_indices, checked_prop, grid, wrapped


def check_element_indices(op: str, data: SSAValue, indices: SSAValue, axis: int) -> None:
    """Raise unless `indices` has the rank of `data` and fits into it on all other axes."""
    check_axis(op, axis, len(shape_of(data)))
    check_indices(op, indices)
    have, want = shape_of(data), shape_of(indices)
    fits = len(have) == len(want) and all(
        i == axis or w <= h for i, (h, w) in enumerate(zip(have, want, strict=True))
    )
    if not fits:
        raise VerifyException(
            f"{op}: indices {indices.type} do not fit {data.type} outside axis {axis}"
            "; the sizes there must not be larger"
        )


@graph_op
class GatherElementsOp(PureOp):
    """result[.., i, ..] = data[.., indices[.., i, ..], ..] along `axis`.

    Negative indices count from the end.
    """

    name = "glow.gather_elements"
    AXES = ("axis",)
    axis = int_prop(0)
    checked = checked_prop()
    data = operand_def(Tensor)
    indices = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_element_indices(self.name, self.data, self.indices, self.axis)
        return [tensor(shape_of(self.indices), element_of(self.data))]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.scatter_elements import ScatterElementsOp

        zeros, axis = b.splat(0, self.data), self.axis
        return [b(ScatterElementsOp(zeros, self.indices, grads[0], axis=axis, reduction="add")), None]

    def reference(self, result: Array, data: Array, indices: Array) -> None:
        result[...] = data[element_places(self, data, indices, self.axis)]


def element_places(op: Any, data: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """NumPy index arrays of the elements that `indices` names."""
    where = grid(indices.shape)
    where[axis] = wrapped(op, indices, data.shape[axis])
    return tuple(where)


SAMPLES = (
    Sample(GatherElementsOp, (random(3, 4), random(3, 2, dtype="int64", low=-4, high=4)), {"axis": 1}),
    Sample(GatherElementsOp, (random(3, 4), random(5, 4, dtype="int32", low=0, high=3))),
    Sample(GatherElementsOp, (random(4, 3, 2), random(2, 3, 1, dtype="int64", low=0, high=4))),
)
