"""`glow_cpu.permute_channels`: channels of a blocked tensor in another order, some of them repeatedly."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import ints_prop
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor


@graph_op
class PermuteChannelsOp(PureOp):
    """Channel i of the result is channel order[i] of the input, both N x C/c x H x W x c."""

    name = "glow_cpu.permute_channels"
    order = ints_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, order = shape_of(self.input), self.order
        if len(shape) != 5:
            raise VerifyException(
                f"{self.name}: {self.input.type} has no blocks of channels; give a blocked tensor"
            )
        if not order or not 0 <= min(order) <= max(order) < shape[1] * shape[4]:
            raise VerifyException(
                f"{self.name}: order {list(order)} names channels that are not there; they count from 0"
            )
        blocks = -(-len(order) // shape[4])
        return [tensor((shape[0], blocks, *shape[2:]), element_of(self.input))]

    def reference(self, result: Array, input: Array) -> None:
        order = list(self.order)
        plain = unblock_channels(input, input.shape[1] * input.shape[-1])[:, order]
        result[...] = block_channels(plain, input.shape[-1])
