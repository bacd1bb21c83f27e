"""non_zero: the indices of the non-zero elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, shape_of, tensor


@graph_op
class NonZeroOp(PureOp):
    """Indices (i64, [rank, elements of the input]) of the non-zero elements, in row-major order.

    The shape is an upper bound: the first `count` (i64, one number) columns are indices, the others 0.
    """

    name = "glow.non_zero"
    input = operand_def(Tensor)
    indices = result_def(Tensor)
    count = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        return [tensor((len(shape), prod(shape)), i64), tensor((), i64)]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [None]

    def reference(self, indices: Array, count: Array, input: Array) -> None:
        nonzero = np.array(np.nonzero(np.atleast_1d(input)))
        indices[...] = 0
        indices[:, : nonzero.shape[1]] = nonzero[: input.ndim]
        count[...] = nonzero.shape[1]


SAMPLES = (
    Sample(NonZeroOp, (random(3, 4, 5, dtype="bool"),), smooth=False),
    Sample(NonZeroOp, (random(40, dtype="int8", low=-1, high=2),), smooth=False),
    Sample(NonZeroOp, (np.array([[0.0, -0.0, np.nan], [1.0, 0.0, -2.0]], np.float32),), smooth=False),
    Sample(NonZeroOp, (np.zeros((2, 3), np.float16),), smooth=False),
    Sample(NonZeroOp, (np.array(7, np.int64),), smooth=False),
)
