"""depth_to_space and space_to_depth: channels spread over square blocks of an image, and back (NCHW)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_choice, int_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp, inverse

#: DCR: depth, column, row (the block is the outer part of the channels); CRD: it is the inner one.
MODES = ("DCR", "CRD")

_ORDERS = {"DCR": (0, 3, 4, 1, 5, 2), "CRD": (0, 1, 4, 2, 5, 3)}


def _check(op: str, value: SSAValue, block: int, mode: str) -> None:
    check_choice(op, "mode", mode, MODES)
    if block < 1:
        raise VerifyException(f"{op}: a block of {block}; give at least 1")
    if len(shape_of(value)) != 4:
        raise VerifyException(f"{op}: expected images (NCHW), got {value.type}")


def _split(shape: Sequence[int], block: int, mode: str) -> tuple[int, ...]:
    """Images of many channels with the block as axes of its own."""
    count, channels, height, width = shape
    small = channels // block**2
    inner = (block, block, small) if mode == "DCR" else (small, block, block)
    return (count, *inner, height, width)


@graph_op
class DepthToSpaceOp(PureOp):
    """[N, C, H, W] -> [N, C / block^2, H block, W block]."""

    name = "glow.depth_to_space"
    block = int_prop()
    mode = str_prop("DCR")
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        block = self.block
        _check(self.name, self.input, block, self.mode)
        count, channels, height, width = shape_of(self.input)
        if channels % block**2:
            raise VerifyException(
                f"{self.name}: {channels} channels do not make blocks of {block}x{block}"
                "; the number must be a multiple of the block's elements"
            )
        shape = (count, channels // block**2, height * block, width * block)
        return [tensor(shape, element_of(self.input))]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [b(SpaceToDepthOp(grads[0], block=self.block, mode=self.mode))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        mode = self.mode
        x = b(ReshapeOp.to(self.input, _split(shape_of(self.input), self.block, mode)))
        x = b(TransposeOp(x, permutation=_ORDERS[mode]))
        return [b(ReshapeOp(x, results=self.result.type))]

    def reference(self, result: Array, input: Array) -> None:
        mode = self.mode
        blocks = input.reshape(_split(input.shape, self.block, mode))
        result[...] = blocks.transpose(_ORDERS[mode]).reshape(result.shape)


@graph_op
class SpaceToDepthOp(PureOp):
    """[N, C, H, W] -> [N, C block^2, H / block, W / block]: undoes depth_to_space of the mode."""

    name = "glow.space_to_depth"
    block = int_prop()
    mode = str_prop("DCR")
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        block = self.block
        _check(self.name, self.input, block, self.mode)
        count, channels, height, width = shape_of(self.input)
        if height % block or width % block:
            raise VerifyException(
                f"{self.name}: {height}x{width} does not divide into {block}x{block}; both must be multiples"
            )
        shape = (count, channels * block**2, height // block, width // block)
        return [tensor(shape, element_of(self.input))]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [b(DepthToSpaceOp(grads[0], block=self.block, mode=self.mode))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        mode = self.mode
        split = _split(shape_of(self.result), self.block, mode)
        x = b(ReshapeOp.to(self.input, [split[i] for i in _ORDERS[mode]]))
        x = b(TransposeOp(x, permutation=inverse(_ORDERS[mode])))
        return [b(ReshapeOp(x, results=self.result.type))]

    def reference(self, result: Array, input: Array) -> None:
        mode = self.mode
        split = _split(result.shape, self.block, mode)
        blocks = input.reshape([split[i] for i in _ORDERS[mode]])
        result[...] = blocks.transpose(inverse(_ORDERS[mode])).reshape(result.shape)


SAMPLES = tuple(
    Sample(op, (random(*shape),), {"block": 2, "mode": mode})
    for mode in MODES
    for op, shape in ((DepthToSpaceOp, (1, 8, 2, 3)), (SpaceToDepthOp, (2, 3, 4, 6)))
)
