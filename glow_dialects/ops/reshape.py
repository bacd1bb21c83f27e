"""reshape: the same elements in the same order under another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor


@graph_op
class ReshapeOp(PureOp):
    """The input's elements, in row-major order, as the result type; the counts must agree."""

    name = "glow.reshape"
    MOVES_ELEMENTS = True
    VIEW = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    @staticmethod
    def to(value: SSAValue, shape: Sequence[int]) -> ReshapeOp:
        """`value` reshaped to `shape`."""
        return ReshapeOp(value, results=tensor(shape, element_of(value)))

    def check(self) -> None:
        have, want = shape_of(self.input), shape_of(self.result)
        if math.prod(have) != math.prod(want) or element_of(self.input) != element_of(self.result):
            raise VerifyException(
                f"glow.reshape: {self.input.type} does not reshape to {self.result.type}; "
                "both must have the same number of elements"
            )

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        """Spatial axes merged, or one of size 1 added or dropped."""
        shape, value = shape_of(self.result), form.value
        if len(shape) not in (3, 4):
            return None
        result = replace(form, rank=len(shape))
        batch, blocks, height, width, lanes = shape_of(value)
        if shape[0] != batch or shape[result.axis] != form.channels:
            return None
        wide = result.over_blocks(shape, blocks, lanes, 1)
        if math.prod(wide[2:4]) != height * width:
            return None
        return replace(result, value=value if wide == shape_of(value) else ReshapeOp.to(value, wide).result)

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        return again(self, x, size, b)

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        return [b(ReshapeOp(dy, results=self.input.type))]

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        array = arrays[0]
        assert array is not None
        return [array.reshape(shape_of(self.result))]


SAMPLES = (
    Sample(ReshapeOp, (random(2, 3, 4),), results=tensor((6, 4))),
    Sample(ReshapeOp, (random(2, 3),), results=tensor((3, 1, 2))),
    Sample(ReshapeOp, (random(1),), results=tensor(())),
    Sample(ReshapeOp, (random(2, 0),), results=tensor((0, 5))),
    Sample(
        ReshapeOp, (random(6, dtype="int64", low=0, high=9),), results=tensor((2, 3), "int64"), smooth=False
    ),
)
