"""round_blocks: activations rounded to 8-bit integers, with one scale per block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of
from glow_dialects.ops.arithmetic import MaxOp
from glow_dialects.ops.reduce import ReduceMaxOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.unary_math import AbsOp, RoundOp

LARGEST = 127
"""The largest integer; the smallest is its negative."""
LEAST = 1e-30
"""Blocks of smaller numbers become zeros, more or less."""


@graph_op
class RoundBlocksOp(PureOp):
    """round(x / s) s, f32, with s = largest |x| / 127 of each `block` places of the last axis.

    Products by weights of few bits that take it are products of integers.
    """

    name = "glow.round_blocks"
    block = int_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        if dtype_of(self.input.type) != np.float32:
            raise VerifyException(f"{self.name}: {self.input.type}, expected elements of f32")
        if self.block < 1 or not shape or shape[-1] % self.block:
            raise VerifyException(
                f"{self.name}: {self.input.type} in blocks of {self.block}; the last axis must be a multiple"
            )
        return [self.input.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        *lead, depth = shape_of(self.input)
        x = Term(b(ReshapeOp.to(self.input, (*lead, depth // self.block, self.block))), b)
        peak = x.apply(AbsOp).apply(ReduceMaxOp, axes=(len(lead) + 1,), keepdims=True)
        inverse = LARGEST / peak.apply(MaxOp, LEAST)
        codes = (x * inverse).apply(RoundOp)
        return [b(ReshapeOp.to((codes * (peak * (1 / LARGEST))).value, (*lead, depth)))]

    def reference(self, result: Array, input: Array) -> None:
        codes, scales = quantized_rows(input, self.block)
        result[...] = (codes * scales[..., None]).reshape(input.shape)


def quantized_rows(x: Array, block: int) -> tuple[Array, Array]:
    """Codes (f32, whole numbers) [..., blocks, block] and scales [..., blocks] of f32 rows."""
    parts = x.reshape(*x.shape[:-1], x.shape[-1] // block, block)
    peak = np.abs(parts).max(-1, keepdims=True, initial=0)
    inverse = np.float32(LARGEST) / np.maximum(peak, np.float32(LEAST))
    return np.rint(parts * inverse), (peak * np.float32(1 / LARGEST))[..., 0]


SAMPLES = (
    Sample(RoundBlocksOp, (random(3, 64, low=-5, high=9),), {"block": 32}, smooth=False),
    Sample(RoundBlocksOp, (random(2, 2, 18),), {"block": 6}, smooth=False),
    Sample(
        RoundBlocksOp,
        (random(1, 128) * (np.arange(128) < 90).astype(np.float32),),
        {"block": 16},
        smooth=False,
    ),
)
