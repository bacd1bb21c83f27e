"""byte_scale: scale and zero point for quantising a tensor to unsigned bytes at run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, tensor
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMinOp
from glow_dialects.ops.unary_math import RoundOp

MOST = 255
"""The largest byte."""


@graph_op
class ByteScaleOp(PureOp):
    """scale (f32) and zero point (u8) of the range of x and 0: x is about (byte - zero) * scale.

    Those of DynamicQuantizeLinear of ONNX, to the bit. Where x holds nothing but zeros the scale is 0.
    """

    name = "glow.byte_scale"
    input = operand_def(Tensor)
    scale = result_def(Tensor)
    zero = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        if dtype_of(self.input.type) != np.float32:
            raise VerifyException(f"{self.name}: {self.input.type}, expected elements of f32; cast it")
        return [tensor((), f32), tensor((), np.dtype(np.uint8))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x = Term(self.input, b)
        axes = tuple(range(len(shape_of(self.input))))
        low, high = (x.apply(kind, axes=axes) if axes else x for kind in (ReduceMinOp, ReduceMaxOp))
        low = low.minimum(0)
        scale = (high.maximum(0) - low) / MOST
        zero = (0 - low / scale).apply(ClipOp, min=0.0, max=float(MOST)).apply(RoundOp)
        return [scale.value, zero.cast(self.zero.type.element_type).value]

    def reference(self, scale: Array, zero: Array, input: Array) -> None:
        none, most = np.float32(0), np.float32(MOST)
        with np.errstate(all="ignore"):
            low = np.minimum(np.min(input, initial=np.inf), none)
            size = (np.maximum(np.max(input, initial=-np.inf), none) - low) / most
            scale[...] = size
            zero[...] = np.rint(np.clip(none - low / size, none, most)).astype(np.uint8)


SAMPLES = tuple(
    Sample(ByteScaleOp, (x,), smooth=False)
    for x in (
        random(3, 70, low=-0.2, high=9),
        random(2, 3, 5, 7, low=-3, high=-1),
        random(1, 1029, low=2, high=3),
        random(16),
        np.array(-0.75, np.float32),
    )
)
