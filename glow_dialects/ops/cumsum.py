"""cumsum: running sums along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.elementwise import widen


class CumulativeOp(PureOp):
    """An accumulation along `axis`; `exclusive` leaves out the element, `reverse` starts at the end."""

    AXES = ("axis",)
    axis = int_prop()
    exclusive = bool_prop(False)
    reverse = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)
    #: The function that accumulates.
    UFUNC: ClassVar[np.ufunc]

    def infer(self) -> Sequence[Attribute]:
        check_axis(self.name, self.axis, len(shape_of(self.input)))
        return [self.input.type]

    def reference(self, result: Array, input: Array) -> None:
        axis = self.axis
        x = widen(input)
        x = np.moveaxis(np.flip(x, axis) if self.reverse else x, axis, 0)
        total = self.UFUNC.accumulate(x, axis=0, dtype=x.dtype)
        if self.exclusive:
            total = np.concatenate([np.full_like(total[:1], self.UFUNC.identity), total[:-1]])
        total = np.moveaxis(total, 0, axis)
        result[...] = np.flip(total, axis) if self.reverse else total


@graph_op
class CumsumOp(CumulativeOp):
    """The sum of the elements up to each one, in the element type."""

    name = "glow.cumsum"
    UFUNC = np.add

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # for each element, the sum over the results that hold it
        return [b(CumsumOp(dy, axis=self.axis, exclusive=self.exclusive, reverse=not self.reverse))]


# Each axis and direction once, with and without the element itself.
WAYS = tuple(
    {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    for axis, exclusive, reverse in ((0, False, False), (1, True, False), (1, False, True), (0, True, True))
)


SAMPLES = (
    *(Sample(CumsumOp, (random(3, 4),), way) for way in WAYS),
    Sample(CumsumOp, (random(5, dtype="int32", low=-9, high=9),), {"axis": 0}, smooth=False),
    *(
        Sample(CumsumOp, (random(3, 5, dtype=kind, low=0, high=5),), {"axis": 1}, smooth=False)
        for kind in ("float64", "float16", "uint8", "int64")
    ),
    Sample(CumsumOp, (random(2, 0),), {"axis": 1, "exclusive": True}),
)
