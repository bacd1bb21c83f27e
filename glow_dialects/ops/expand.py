"""expand: broadcast of a tensor to a shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again, aligned
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, element_of, shape_of, tensor
from glow_dialects.ops.elementwise import unbroadcast


@graph_op
class ExpandOp(PureOp):
    """The input broadcast to the result type, NumPy's rule."""

    name = "glow.expand"
    MOVES_ELEMENTS = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        have, want = shape_of(self.input), shape_of(self.result)
        same = element_of(self.input) == element_of(self.result)
        if not same or broadcast_shapes(have, want) != want:
            raise VerifyException(
                f"glow.expand: {self.input.type} does not broadcast to {self.result.type}"
                "; sizes must be equal, or 1"
            )

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        return again(self, [aligned(x[0], len(shape_of(self.result)), b)], size, b)

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        return [unbroadcast(dy, self.input, b)]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = np.broadcast_to(input, result.shape)


SAMPLES = (
    Sample(ExpandOp, (random(3, 1),), results=tensor((2, 3, 4))),
    Sample(ExpandOp, (random(),), results=tensor((2, 3))),
    Sample(ExpandOp, (random(2, 3),), results=tensor((2, 3))),
    Sample(ExpandOp, (random(1, 3),), results=tensor((0, 3))),
)
