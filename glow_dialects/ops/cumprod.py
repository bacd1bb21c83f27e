"""cumprod: running products along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import shape_of
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.cumsum import WAYS, CumulativeOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.slice import SliceOp


@graph_op
class CumprodOp(CumulativeOp):
    """The product of the elements up to each one, in the element type"""

    name = "glow.cumprod"
    UFUNC = np.multiply

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # The product in front of an element, times the sum over the results that hold it of dy times the
        # product between the two: that sum is dy + next element * next sum. Nothing is divided by.
        before = (
            self.result
            if self.exclusive
            else b(CumprodOp(self.input, axis=self.axis, reverse=self.reverse, exclusive=True))
        )
        factors = self.input if self.exclusive else self._moved(self.input, 1, 0.0, b)
        total = self._recurrence(dy, factors, b)
        return [b(MulOp(before, self._moved(total, 1, 0.0, b) if self.exclusive else total))]

    def _recurrence(self, value: SSAValue, factors: SSAValue, b: Builder) -> SSAValue:
        """y with y = value + factor * next y, towards where the products start, by 2, 4, 8, .. neighbours."""
        size, step = shape_of(value)[self.axis], 1
        while step < size:
            further = b(MulOp(factors, self._moved(value, step, 0.0, b)))
            value = b(AddOp(value, further))
            step *= 2
            if step < size:
                factors = b(MulOp(factors, self._moved(factors, step // 2, 0.0, b)))
        return value

    def _moved(self, value: SSAValue, by: int, fill: float, b: Builder, ahead: bool = False) -> SSAValue:
        """`value` moved to where the products start, or `ahead`, away from there; `fill` behind it."""
        axis, shape = self.axis, list(shape_of(value))
        if not shape[axis]:
            return value
        starts, pads = [0] * len(shape), [0] * (2 * len(shape))
        down = self.reverse == ahead
        starts[axis] = by if down else 0
        pads[axis + (len(shape) if down else 0)] = by
        shape[axis] -= by
        kept = b(SliceOp.window(value, starts, shape))
        return b(PadOp(kept, pads=tuple(pads), value=fill))

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # products of 2, 4, 8, ... neighbours
        axis: int = self.axis
        size = shape_of(self.input)[axis]
        value = self.input
        if self.exclusive:
            value = self._moved(value, 1, 1.0, b, ahead=True)
        step = 1
        while step < size:
            value = b(MulOp(value, self._moved(value, step, 1.0, b, ahead=True)))
            step *= 2
        return [value]


_ZEROS = np.array([[2, 0, 3, -1], [0, 2, 0, 1.5], [-1, 2, 3, 0]], np.float32)
SAMPLES = (
    *(Sample(CumprodOp, (random(3, 5, low=0.5, high=2),), way) for way in WAYS),
    *(Sample(CumprodOp, (_ZEROS,), way) for way in WAYS),
    Sample(CumprodOp, (random(5, dtype="int32", low=1, high=5),), {"axis": 0}, smooth=False),
    Sample(CumprodOp, (random(2, 0),), {"axis": 1, "exclusive": True}),
)
