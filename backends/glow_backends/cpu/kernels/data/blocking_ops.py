"""`glow_cpu.block` and `glow_cpu.unblock`: to channel blocks and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import block_channels, blocked_shape, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import (
    check_choice,
    int_prop,
    str_prop,
)
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.windows import LAYOUTS, channels_first, channels_last


@graph_op
class BlockOp(PureOp):
    """NCHW (NHWC) to N x C/c x H x W x c; lanes without a channel are zero."""

    name = "glow_cpu.block"
    lanes = int_prop()
    layout = str_prop("NCHW")
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "layout", self.layout, LAYOUTS)
        shape = shape_of(self.input)
        if len(shape) != 4:
            raise VerifyException(f"{self.name}: expected a tensor of rank 4, got {self.input.type}")
        if self.layout == "NHWC":
            shape = (shape[0], shape[3], shape[1], shape[2])
        return [tensor(blocked_shape(shape, self.lanes), element_of(self.input))]

    def reference(self, result: Array, input: Array) -> None:
        plain = channels_first(input) if self.layout == "NHWC" else input
        result[...] = block_channels(plain, self.lanes)


@graph_op
class UnblockOp(PureOp):
    """N x C/c x H x W x c to NCHW (NHWC) of `channels` channels."""

    name = "glow_cpu.unblock"
    channels = int_prop()
    layout = str_prop("NCHW")
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "layout", self.layout, LAYOUTS)
        batch, blocks, height, width, lanes = blocked(self, self.input)
        channels = self.channels
        if -(-channels // lanes) != blocks:
            raise VerifyException(
                f"{self.name}: {channels} channels are not {blocks} blocks "
                f"of {lanes}; these numbers must be equal"
            )
        last = self.layout == "NHWC"
        shape = (batch, height, width, channels) if last else (batch, channels, height, width)
        return [tensor(shape, element_of(self.input))]

    def reference(self, result: Array, input: Array) -> None:
        plain = unblock_channels(input, self.channels)
        result[...] = channels_last(plain) if self.layout == "NHWC" else plain


def blocked(op: PureOp, value: Any) -> tuple[int, int, int, int, int]:
    """(N, C/c, H, W, c) of a blocked operand; a VerifyException for any other shape."""
    shape = shape_of(value)
    if len(shape) != 5:
        raise VerifyException(f"{op.name}: expected a blocked tensor of rank 5, got {value.type}")
    return shape[0], shape[1], shape[2], shape[3], shape[4]
