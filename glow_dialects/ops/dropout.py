"""dropout: the identity in inference, random zeros in training."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import check_float


def uniform(seed: int, step: int, shape: Sequence[int]) -> Array:
    """Numbers in [0, 1), float32, that depend on seed, step and position only (SplitMix64)."""
    mask = (1 << 64) - 1
    key = (seed * 0xD1342543DE82EF95 + step * 0xAF251AF3B0F025B5 + 0x2545F4914F6CDD1D) & mask
    count = prod(shape)
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        z = np.uint64(key) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * golden
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)).reshape(shape)


class _Dropout(PureOp):
    """Checks of the ratio; results are the data and the mask of the kept elements."""

    ratio = float_prop(0.5)
    seed = int_prop(0)
    input = operand_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        input = self.operands[0]
        check_float(self.name, input)
        if not 0 <= self.ratio < 1:
            raise VerifyException(f"{self.name}: ratio {self.ratio} is not in [0, 1)")
        return [input.type, tensor(shape_of(input), i1)]


@graph_op
class DropoutOp(_Dropout):
    """The input, and a mask that keeps everything. In training functions: dropout_train."""

    name = "glow.dropout"
    result = result_def(Tensor)
    mask = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return [self.input, b.splat(True, self.mask)]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [grads[0]]


@graph_op
class DropoutTrainOp(_Dropout):
    """input / (1 - ratio) where the mask is true, else 0; each element is dropped with chance `ratio`.

    The mask depends on `seed`, the scalar i64 `step`, and each element's position only.
    """

    name = "glow.dropout_train"
    CHEAP = True
    step = operand_def(Tensor)
    result = result_def(Tensor)
    mask = result_def(Tensor)

    def check(self) -> None:
        if self.step.type != tensor((), i64):
            raise VerifyException(f"{self.name}: step is {self.step.type}, expected tensor<i64>")

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        return [Term(self.mask, b).where(Term(dy, b) * (1 / (1 - self.ratio)), 0.0).value, None]

    def reference(self, result: Array, mask: Array, input: Array, step: Array) -> None:
        ratio = self.ratio
        keep = uniform(self.seed, int(step), input.shape) >= np.float32(ratio)
        x = widen(input)
        result[...] = np.where(keep, x * x.dtype.type(1 / (1 - ratio)), x.dtype.type(0))
        mask[...] = keep


SAMPLES: tuple[Sample, ...] = (
    Sample(DropoutOp, (random(3, 4),), {"ratio": 0.3}),
    Sample(DropoutTrainOp, (random(3, 40), np.array(7)), {"ratio": 0.3, "seed": 5}),
)
