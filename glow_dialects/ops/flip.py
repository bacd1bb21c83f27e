"""flip: the order of elements reversed along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_axes, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.slice import SliceOp


@graph_op
class FlipOp(PureOp):
    """Element i of each of `axes` is element size - 1 - i of the input."""

    name = "glow.flip"
    MOVES_ELEMENTS = True
    AXES = ("axes",)
    axes = ints_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_axes(self.name, self.axes, len(shape_of(self.input)))
        return [self.input.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [b(FlipOp(grads[0], axes=self.axes))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        shape, axes = shape_of(self.input), self.axes
        if 0 in shape:
            return [self.input]
        bounds = [(n - 1, -1, -1) if i in axes else (0, n, 1) for i, n in enumerate(shape)]
        starts, ends, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
        return [b(SliceOp(self.input, starts=starts, ends=ends, steps=steps))]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = np.flip(input, self.axes)


SAMPLES = (
    Sample(FlipOp, (random(3, 4),), {"axes": (0,)}),
    Sample(FlipOp, (random(2, 3, 4),), {"axes": (0, 2)}),
    Sample(FlipOp, (random(3, 4),), {"axes": ()}),
)
