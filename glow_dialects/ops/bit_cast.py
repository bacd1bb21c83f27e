"""bit_cast: the same bits read as another element type of the same width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    Tensor,
    UniformQuantizedType,
    dtype_of,
    element_of,
    shape_of,
    tensor,
    typed,
)


def _width(kind: Attribute) -> int:
    """Bits of an element type; 0 where it has no fixed width."""
    if isinstance(kind, UniformQuantizedType):
        return kind.storage.width.data
    return kind.bitwidth if isinstance(kind, FixedBitwidthType) else 0


@graph_op
class BitCastOp(PureOp):
    """The input's bits as the result type: the same shape, an element type of the same width.

    Stored integers of a quantised type are plain integers of their width.
    """

    name = "glow.bit_cast"
    VIEW = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        same = _width(element_of(self.input)) == _width(element_of(self.result)) > 0
        if not same or shape_of(self.input) != shape_of(self.result):
            raise VerifyException(
                f"glow.bit_cast: {self.input.type} and {self.result.type} differ in shape or width; keep both"
            )

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [None]

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        array = arrays[0]
        assert array is not None
        return [np.ascontiguousarray(array).reshape(array.shape).view(dtype_of(typed(self.result)))]


SAMPLES = (
    Sample(BitCastOp, (random(3, 4),), results=tensor((3, 4), "int32"), smooth=False),
    Sample(
        BitCastOp,
        (random(2, 3, dtype="int64", low=0, high=9),),
        results=tensor((2, 3), "float64"),
        smooth=False,
    ),
    Sample(
        BitCastOp, (random(4, dtype="int8", low=-9, high=9),), results=tensor((4,), "uint8"), smooth=False
    ),
)
