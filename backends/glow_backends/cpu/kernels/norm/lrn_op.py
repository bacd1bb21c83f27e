"""`glow_cpu.lrn`: local response normalisation of a blocked tensor."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop
from glow_dialects.core.types import Array, Tensor, shape_of, tensor_of
from glow_dialects.ops.lrn import LrnOp


@graph_op
class BlockedLrnOp(PureOp):
    """glow.lrn of `channels` channels on N x C/c x H x W x c."""

    name = "glow_cpu.lrn"
    channels = int_prop()
    size = int_prop()
    alpha = float_prop()
    beta = float_prop()
    bias = float_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        if len(shape) != 5 or -(-self.channels // shape[4]) != shape[1]:
            raise VerifyException(
                f"{self.name}: {self.channels} channels in {self.input.type}; only the last block may "
                "have fewer"
            )
        return [self.input.type]

    def reference(self, result: Array, input: Array) -> None:
        plain = unblock_channels(input, self.channels)
        numbers = {n: getattr(self, n) for n in ("size", "alpha", "beta", "bias")}
        block = Block(arg_types=[tensor_of(plain)])
        (plain_result,) = LrnOp(*block.args, **numbers).evaluate([plain])
        result[...] = block_channels(plain_result, input.shape[-1])
