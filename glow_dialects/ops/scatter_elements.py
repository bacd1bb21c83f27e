"""scatter_elements: a tensor with elements replaced or joined along one axis, an index each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_choice, int_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.gather_elements import GatherElementsOp, check_element_indices, element_places
from glow_dialects.ops.indexing import REDUCTIONS, checked_prop, scatter
from glow_dialects.ops.scatter_nd import joined_gradient, masked


@graph_op
class ScatterElementsOp(PureOp):
    """`data` with data[.., indices[.., i, ..], ..] joined with updates[.., i, ..] along `axis`.

    `reduction` is none (replace; the last of equal indices wins), add, mul, max or min. Negative
    indices count from the end.
    """

    name = "glow.scatter_elements"
    AXES = ("axis",)
    INPLACE = ("data",)
    axis = int_prop(0)
    reduction = str_prop("none")
    checked = checked_prop()
    data = operand_def(Tensor)
    indices = operand_def(Tensor)
    updates = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "reduction", self.reduction, REDUCTIONS)
        check_element_indices(self.name, self.data, self.indices, self.axis)
        same = element_of(self.updates) == element_of(self.data)
        if shape_of(self.updates) != shape_of(self.indices) or not same:
            raise VerifyException(
                f"glow.scatter_elements: updates {self.updates.type} do not go with indices "
                f"{self.indices.type} and data {self.data.type}"
                "; updates have the shape of the indices, and the data's element type"
            )
        return [self.data.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        dy, axis = grads[0], self.axis
        assert dy is not None

        def taken(value: SSAValue) -> SSAValue:
            return b(GatherElementsOp(value, self.indices, axis=axis))

        if self.reduction == "none":
            zeros = b.splat(0, self.updates)
            # Of equal indices the last one is in the result.
            numbers = b.constant(np.arange(math.prod(shape_of(self.indices))).reshape(shape_of(self.indices)))
            table = b.splat(0, tensor(shape_of(self.data), element_of(numbers)))
            last = taken(b(ScatterElementsOp(table, self.indices, numbers, axis=axis)))
            own = masked(b(CmpEqOp(last, numbers)), taken(dy), b)
            return [b(ScatterElementsOp(dy, self.indices, zeros, axis=axis)), None, own]

        def joined(data: Term, updates: Term, reduction: str) -> Term:
            kind, operands = ScatterElementsOp, (data.value, self.indices, updates.value)
            return Term(b(kind(*operands, axis=axis, reduction=reduction)), b)

        pair = joined_gradient(self, dy, taken, joined, b)
        return [pair[0], None, pair[1]]

    def reference(self, result: Array, data: Array, indices: Array, updates: Array) -> None:
        where = element_places(self, data, indices, self.axis)
        scatter(result, data, where, updates, self.reduction)


def _sample(indices: Sequence[Sequence[int]], axis: int, reduction: str) -> Sample:
    places = np.array(indices, np.int64)
    return Sample(
        ScatterElementsOp,
        (random(3, 4, low=0.5, high=2), places, random(*places.shape, low=0.5, high=2, seed=1)),
        {"axis": axis, "reduction": reduction},
    )


SAMPLES = (
    *(_sample([[0, 2], [-1, 1], [1, 0]], 1, reduction) for reduction in REDUCTIONS),
    _sample([[0, 2, 0], [-1, 1, 3], [1, 0, 1]], 1, "none"),
    *(_sample([[0, 2, 1]], 0, reduction) for reduction in ("none", "add")),
    _sample([[1, 1], [0, 0], [3, 3]], 1, "add"),
)
