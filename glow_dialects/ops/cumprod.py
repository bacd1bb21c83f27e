"""cumprod: running products along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import shape_of
from glow_dialects.ops.arithmetic import DivOp, MulOp
from glow_dialects.ops.cumsum import WAYS, CumulativeOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.slice import SliceOp


@graph_op
class CumprodOp(CumulativeOp):
    """The product of the elements up to each one, in the element type; the gradient needs no zeros."""

    name = "glow.cumprod"
    UFUNC = np.multiply

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # each result that holds an element changes by result / element
        return [b(DivOp(self.adjoint_sum(b(MulOp(dy, self.result)), b), self.input))]

    def _shifted(self, value: SSAValue, by: int, b: Builder) -> SSAValue:
        """`value` moved along the axis, away from where the products start, with ones behind it."""
        axis, shape = self.axis, list(shape_of(value))
        starts, pads = [0] * len(shape), [0] * (2 * len(shape))
        reverse = self.reverse
        starts[axis] = by if reverse else 0
        pads[axis + (len(shape) if reverse else 0)] = by
        shape[axis] -= by
        kept = b(SliceOp.window(value, starts, shape))
        return b(PadOp(kept, pads=tuple(pads), value=1.0))

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # products of 2, 4, 8, ... neighbours
        axis: int = self.axis
        size = shape_of(self.input)[axis]
        value = self.input
        if self.exclusive and size:
            value = self._shifted(value, 1, b)
        step = 1
        while step < size:
            value = b(MulOp(value, self._shifted(value, step, b)))
            step *= 2
        return [value]


SAMPLES = (
    *(Sample(CumprodOp, (random(3, 5, low=0.5, high=2),), way) for way in WAYS),
    Sample(CumprodOp, (random(5, dtype="int32", low=1, high=5),), {"axis": 0}, smooth=False),
    Sample(CumprodOp, (random(2, 0),), {"axis": 1, "exclusive": True}),
)
