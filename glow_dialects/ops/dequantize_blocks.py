"""dequantize_blocks: packed low-bit weights as real numbers, with one scale per block."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop, opt_floats_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.arithmetic import MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.logic import BitwiseAndOp, ShiftRightOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp

WIDTHS = (1, 2, 4, 8)
"""Bits of a code that fill bytes evenly."""
_BYTES = np.arange(256, dtype=np.uint8)
E4M3 = tuple(map(float, np.nan_to_num(_BYTES.view(ml_dtypes.float8_e4m3fn).astype(np.float32))))
"""Levels of codes of 8 bits that are floats of the format e4m3fn; its two NaN, which no weight is, are 0."""
FORM = ("bits", "block", "depth", "point", "levels")
"""The properties that define the values of codes."""


def unpack(packed: Array, bits: int, count: int) -> Array:
    """The first `count` codes of `bits` in each row of bytes, lowest bits first."""
    if bits == 8:
        return packed[..., :count]
    codes = np.empty((*packed.shape, 8 // bits), np.uint8)
    for place in range(8 // bits):
        codes[..., place] = (packed >> np.uint8(bits * place)) & np.uint8((1 << bits) - 1)
    return codes.reshape(*packed.shape[:-1], packed.shape[-1] * (8 // bits))[..., :count]


def pack(codes: Array, bits: int) -> Array:
    """The inverse of `unpack`: bytes of codes, the last of each row filled with zeros."""
    each = 8 // bits
    *lead, count = codes.shape
    padded = np.zeros((*lead, -(-count // each), each), np.uint8)
    padded.reshape(*lead, -1)[..., :count] = codes
    made = padded[..., 0].copy()
    for place in range(1, each):
        made |= padded[..., place] << np.uint8(bits * place)
    return made


def dequantize_blocks(
    codes: Array,
    scales: Array,
    points: Array | None,
    *,
    bits: int,
    block: int,
    depth: int,
    point: float,
    levels: Sequence[float] | None,
) -> Array:
    """(level of each code - its block's point) its block's scale, as f32 [..., depth]."""
    real = unpack(codes, bits, depth).astype(np.float32)
    if levels is not None:
        real = np.asarray(levels, np.float32)[real.astype(np.int64)]
    wide = np.repeat(scales, block, -1)[..., :depth]
    shift = np.float32(point) if points is None else np.repeat(points, block, -1)[..., :depth]
    return (real - shift) * wide


@graph_op
class DequantizeBlocksOp(PureOp):
    """Codes of few bits as f32: (code - point) scale, one scale for each `block` places of the last axis.

    `codes` are bytes [..., ceil(depth * bits / 8)], lowest bits first; `scales`, and `points` where each
    block has its own, are f32 [..., ceil(depth / block)]; else `point` is everyone's. `levels`: what each
    code stands for, where that is not its number.
    """

    name = "glow.dequantize_blocks"
    UNPACKS = True
    bits = int_prop()
    block = int_prop()
    depth = int_prop()
    point = float_prop(0.0)
    levels = opt_floats_prop()
    codes = operand_def(Tensor)
    scales = operand_def(Tensor)
    points = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        bits, block, depth = self.bits, self.block, self.depth
        if bits not in WIDTHS or block < 1 or depth < 0:
            raise VerifyException(
                f"{self.name}: {bits} bits in blocks of {block} over {depth} elements; blocks must cover "
                "all elements"
            )
        if dtype_of(self.codes.type) != np.uint8:
            raise VerifyException(f"{self.name}: codes are {self.codes.type}, expected bytes")
        *lead, stored = shape_of(self.codes) or (0,)
        if not shape_of(self.codes) or stored != -(-depth * bits // 8):
            raise VerifyException(
                f"{self.name}: {depth} codes of {bits} bits do not fill {self.codes.type}"
                "; give as many bytes as the codes need"
            )
        for value in (self.scales, *present(self.points)):
            if shape_of(value) != (*lead, -(-depth // block)):
                raise VerifyException(
                    f"{self.name}: {value.type} with {self.codes.type} in blocks of {block}"
                    "; give one number per block"
                )
        levels = self.levels
        if levels is not None and len(levels) != 1 << bits:
            raise VerifyException(
                f"{self.name}: {len(levels)} levels for {bits} bits; give one "
                "level for each value of that many bits"
            )
        return [tensor((*lead, depth), element_of(self.scales))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        bits, block, depth = self.bits, self.block, self.depth
        *lead, stored = shape_of(self.codes)
        each, blocks, kind = 8 // bits, shape_of(self.scales)[-1], element_of(self.scales)
        column = b(ReshapeOp.to(self.codes, (*lead, stored, 1)))
        shifts = b.constant(np.arange(0, 8, bits, dtype=np.uint8))
        mask = b.constant(np.array((1 << bits) - 1, np.uint8))
        codes = b(BitwiseAndOp(b(ShiftRightOp(column, shifts)), mask)) if each > 1 else column
        codes = b(ReshapeOp.to(codes, (*lead, stored * each)))
        levels = self.levels
        if levels is None:
            real = b(CastOp(codes, results=tensor((*lead, stored * each), kind)))
        else:
            table = b.constant(np.asarray(levels, np.float32))
            places = b(CastOp(codes, results=tensor((*lead, stored * each), i64)))
            real = b(GatherOp(table, places, axis=0))
        real = _fitted(b, real, blocks * block)
        real = b(ReshapeOp.to(real, (*lead, blocks, block)))

        def column_of(value: SSAValue) -> SSAValue:
            return b(ReshapeOp.to(value, (*lead, blocks, 1)))

        point = [column_of(v) for v in present(self.points)] or [b.scalar(self.point, self.scales)]
        y = b(MulOp(b(SubOp(real, point[0])), column_of(self.scales)))
        return [_fitted(b, b(ReshapeOp.to(y, (*lead, blocks * block))), depth)]

    def reference(self, result: Array, codes: Array, scales: Array, points: Array | None) -> None:
        result[...] = dequantize_blocks(codes, scales, points, **{n: getattr(self, n) for n in FORM})


def _fitted(b: Builder, value: SSAValue, count: int) -> SSAValue:
    """The first `count` places of the last axis, zeros where there are fewer."""
    *lead, own = shape_of(value)
    zeros = (0,) * len(lead)
    if own < count:
        return b(PadOp(value, pads=(*zeros, 0, *zeros, count - own)))
    if own == count:
        return value
    ends, steps = (*lead, count), (1,) * (len(lead) + 1)
    return b(SliceOp(value, starts=(*zeros, 0), ends=ends, steps=steps))


SAMPLES: tuple[Sample, ...] = (
    Sample(
        DequantizeBlocksOp,
        (random(3, 10, dtype="uint8", low=0, high=256), random(3, 2)),
        {"bits": 4, "block": 16, "depth": 20, "point": 8.0},
        smooth=False,
    ),
    Sample(
        DequantizeBlocksOp,
        (random(2, 3, 8, dtype="uint8", low=0, high=256), random(2, 3, 2), random(2, 3, 2, low=0, high=4)),
        {"bits": 2, "block": 16, "depth": 32},
        smooth=False,
    ),
    Sample(
        DequantizeBlocksOp,
        (random(4, 33, dtype="uint8", low=0, high=256), random(4, 3)),
        {"bits": 8, "block": 16, "depth": 33, "point": 128.0},
        smooth=False,
    ),
    Sample(
        DequantizeBlocksOp,
        (random(2, 4, dtype="uint8", low=0, high=256), random(2, 1)),
        {"bits": 4, "block": 16, "depth": 8, "levels": tuple(i * i / 16 - 8 for i in range(16))},
        smooth=False,
    ),
)
