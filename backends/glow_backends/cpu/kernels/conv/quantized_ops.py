"""`glow_cpu.quantized_conv`, `glow_cpu.pairs_conv`: convolutions of stored integers on channel blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.irdl import operand_def, opt_operand_def, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import int_prop, ints_prop
from glow_dialects.core.types import Array, Tensor, UniformQuantizedType, element_of, shape_of
from glow_dialects.ops.quantize import is_byte, quantized_type
from glow_dialects.ops.quantized_arithmetic import sum_of
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, finish, requantized, scale_of, zero_of
from glow_dialects.ops.windows import convolve, output_sizes


class IntegerConvOp(PureOp):
    """Exact sums of products of bytes, requantised (glow.quantized_conv on blocks).

    `input` is blocked, unsigned, of one scale. Kernels pad with stored zeros, so a padded input has
    zero point 0, unless every channel is a group of its own. `filter` is OIHW, signed; `bias` i32. The
    result is blocked, unsigned, f32 or i32.
    With a `residual` the convolution's own result has elements `between`, and what is stored is
    glow.quantized_add of both, within sum_low .. sum_high.
    """

    lanes = int_prop()
    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    group = int_prop(1)
    low = int_prop(NO_LOW)
    high = int_prop(NO_HIGH)
    sum_low = int_prop(NO_LOW)
    sum_high = int_prop(NO_HIGH)
    between = opt_prop_def(UniformQuantizedType)
    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    residual = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        if (self.residual is None) != (self.between is None):
            raise VerifyException(
                f"{self.name}: `residual` and `between` must be given together; give both, or none"
            )
        if self.residual is not None and shape_of(self.residual) != shape_of(self.results[0]):
            raise VerifyException(
                f"{self.name}: the residual is {self.residual.type}; give one of the result's shape"
            )
        source = quantized_type(self.input)
        depthwise = 1 < self.group == shape_of(self.filter)[0] and shape_of(self.filter)[1] == 1
        if (source.signed and is_byte(self.input)) or (any(self.pads) and zero_of(source) and not depthwise):
            raise VerifyException(
                f"{self.name}: bytes must be unsigned, and a padded input needs zero point 0, got "
                f"{self.input.type}"
            )
        batch, _, height, width, lanes = shape_of(self.input)
        out, _, *kernel = shape_of(self.filter)
        window = (kernel, self.strides, self.pads, self.dilations)
        want = (batch, -(-out // lanes), *output_sizes((height, width), *window), lanes)
        if shape_of(self.results[0]) != want:
            raise VerifyException(f"{self.name}: the result is {self.results[0].type}, expected {want}")

    def reference(
        self, result: Array, input: Array, filter: Array, bias: Array | None, residual: Array | None
    ) -> None:
        source, to = quantized_type(self.operands[1]), element_of(self.operands[0])
        between: Any = self.properties.get("between")
        group = self.group
        x = unblock_channels(input, filter.shape[1] * group).astype(np.float64) - zero_of(source)
        window = (self.strides, self.pads, self.dilations, group)
        offset = None if bias is None else bias.astype(np.float64)
        total = convolve(x, filter.astype(np.float64), *window, bias=offset)
        scales = quantized_type(self.operands[2]).scale_array.reshape(1, -1, 1, 1)
        own = between or to
        y = requantized(total, scale_of(source), scales, own, self.low, self.high)
        y = block_channels(y.astype(result.dtype), self.lanes)
        if residual is not None:
            assert isinstance(to, UniformQuantizedType)
            added = quantized_type(self.operands[-1])
            y = finish(sum_of(y, residual, between, added, to), to, self.sum_low, self.sum_high)
        result[...] = y


@graph_op
class QuantizedConvOp(IntegerConvOp):
    """Exact sums of products of bytes, requantised."""

    name = "glow_cpu.quantized_conv"


@graph_op
class PairsConvOp(IntegerConvOp):
    """quantized_conv of numbers that fit bytes but come in 16 bits, for processors that multiply pairs."""

    name = "glow_cpu.pairs_conv"
