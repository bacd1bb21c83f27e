"""`glow_cpu.permute_channels`: the channels of a blocked tensor in another order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.kernels.packing import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.instr_op import InstrOp, instr_op
from glow_dialects.core.properties import ints_prop
from glow_dialects.core.types import Array, Tensor, shape_of


@graph_op
class PermuteChannelsOp(PureOp):
    """Channel i of the result is channel order[i] of the input, both N x C/c x H x W x c."""

    name = "glow_cpu.permute_channels"
    order = ints_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, order = shape_of(self.input), self.prop("order")
        if len(shape) != 5 or -(-len(order) // shape[4]) != shape[1]:
            raise VerifyException(f"{self.name}: {len(order)} channels do not fill {self.input.type}")
        if sorted(order) != list(range(len(order))):
            raise VerifyException(f"{self.name}: order {list(order)} is not one of all channels")
        return [self.input.type]


@instr_op(of=PermuteChannelsOp)
class PermuteChannelsInstr(InstrOp):
    """Shuffles of vectors."""

    name = "glow_cpu_instr.permute_channels"

    def reference(self, result: Array, input: Array) -> None:
        order = list(self.prop("order"))
        plain = unblock_channels(input, len(order))[:, order]
        result[...] = block_channels(plain, input.shape[-1])
