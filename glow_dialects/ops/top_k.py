"""top_k: the largest or smallest elements along an axis, with their indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.scatter_elements import ScatterElementsOp


@graph_op
class TopKOp(PureOp):
    """The k largest (or smallest) elements of `axis` and their indices (i64), in order.

    Equal elements keep their order; NaN is larger than every number. Unsorted results have the
    same order.
    """

    name = "glow.top_k"
    AXES = ("axis",)
    k = int_prop()
    axis = int_prop()
    largest = bool_prop(True)
    sorted = bool_prop(True)
    input = operand_def(Tensor)
    values = result_def(Tensor)
    indices = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, axis, k = list(shape_of(self.input)), self.axis, self.k
        check_axis(self.name, axis, len(shape))
        if not 0 <= k <= shape[axis]:
            raise VerifyException(
                f"glow.top_k: k is {k}, axis {axis} has {shape[axis]} elements; take at most as many"
            )
        shape[axis] = k
        return [tensor(shape, element_of(self.input)), tensor(shape, i64)]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        zeros, axis = b.splat(0, self.input), self.axis
        if grads[0] is None:
            return [None]
        return [b(ScatterElementsOp(zeros, self.indices, grads[0], axis=axis))]

    def reference(self, values: Array, indices: Array, input: Array) -> None:
        axis: int = self.axis
        ranked = order(widen(input), axis, self.largest)
        best: Array = np.take(ranked, range(self.k), axis)
        indices[...] = best
        values[...] = np.take_along_axis(input, best, axis)


def order(x: Array, axis: int, largest: bool) -> Array:
    """Indices that sort `x` along an axis, equal elements in their order."""
    if not largest:
        return np.argsort(x, axis, kind="stable")
    mirrored = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(mirrored, axis)


_TIES = np.array([[3, 1, 3, 2], [0, 0, 5, 5]], np.int32)
SAMPLES = (
    *(
        Sample(
            TopKOp,
            (random(4, 9, dtype=kind, low=0, high=5),),
            {"k": 4, "axis": 1, "largest": largest},
            smooth=False,
        )
        for kind in ("float64", "float16", "uint8", "int64")
        for largest in (True, False)
    ),
    Sample(TopKOp, (random(2, 50),), {"k": 17, "axis": 1}),
    Sample(TopKOp, (np.array([1, np.nan, np.inf, -np.inf], np.float32),), {"k": 3, "axis": 0}, smooth=False),
    Sample(TopKOp, (random(3, 6),), {"k": 2, "axis": 1}),
    Sample(TopKOp, (random(5, 3),), {"k": 3, "axis": 0, "largest": False}),
    Sample(TopKOp, (random(2, 4, 3),), {"k": 4, "axis": 1}),
    Sample(TopKOp, (_TIES,), {"k": 3, "axis": 1}, smooth=False),
    Sample(TopKOp, (_TIES,), {"k": 3, "axis": 1, "largest": False, "sorted": False}, smooth=False),
)
