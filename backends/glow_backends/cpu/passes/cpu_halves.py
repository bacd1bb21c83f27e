"""glow-cpu-halves: layers on 16-bit integers become two layers on their bytes.

    sum (x - z) w  =  256 sum (h - zh) w  +  sum (l - zl) w        x = 256 h + l,  z = 256 zh + zl

Each half has exact 32-bit sums from the kernels of bytes. What both make fits into 32 bits, too, where the
weights are small enough, else into float64: the result is that of the operator on 16 bits, bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from glow_backends.cpu.emit.packing import factors_of
from glow_dialects.core.types import UniformQuantizedType, element_of, present, shape_of, tensor
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.logic import BitwiseAndOp, ShiftLeftOp, ShiftRightOp
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.requantize import RequantizingOp, scale_of, stored_limits, zero_of
from glow_dialects.ops.unary_math import RoundOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite
from glow_passes.graph.linear import plain_properties


def conv(op: QuantizedConvOp, r: Rewriter) -> SSAValue | None:
    """quantized_conv of 16-bit integers, along one or two axes."""
    axis = len(shape_of(op.input)) - 1 if op.layout == "NHWC" else 1
    return _halves(op, op.filter, axis, r) if len(shape_of(op.input)) in (3, 4) else None


def fully_connected(op: QuantizedFullyConnectedOp, r: Rewriter) -> SSAValue | None:
    """quantized_fully_connected of 16-bit integers."""
    return _halves(op, op.weights, 1, r)


def _halves(
    op: QuantizedConvOp | QuantizedFullyConnectedOp, weights: SSAValue, axis: int, r: Rewriter
) -> SSAValue | None:
    source, to = quantized_type(op.input), element_of(op.result)
    known = [r.array(v) for v in (weights, *present(op.bias))]
    narrow = source.storage.width.data != 16 or quantized_type(weights).storage.width.data != 8
    if narrow or not source.signed or any(a is None for a in known) or op.predicate is not None:
        return None
    if to == i32:
        return None
    options = {n: v for n, v in plain_properties(op).items() if n not in ("low", "high")}
    shape, sums = shape_of(op.result), tensor(shape_of(op.result), i32)
    high, low = (
        r(type(op)(half, weights, None, results=sums, **options)) for half in _bytes_of(op.input, source, r)
    )
    row = [1] * len(shape)
    row[axis] = shape[axis]

    def wide(value: SSAValue, dtype: str) -> SSAValue:
        return r(CastOp(value, results=tensor(shape_of(value), dtype)))

    def number(value: float, dtype: Any) -> SSAValue:
        return r.weight(np.array(value, dtype))

    bias = None if op.bias is None else np.asarray(known[1]).reshape(row)
    fits = _fits(np.asarray(known[0]), op, source, bias)
    if fits:
        total = r(AddOp(r(ShiftLeftOp(high, number(8, np.int32))), low))
    else:
        total = r(AddOp(r(MulOp(wide(high, "float64"), number(256, np.float64))), wide(low, "float64")))
    if bias is not None:
        total = r(AddOp(total, r.weight(bias.astype(np.int32 if fits else np.float64), "bias")))
    factor = factors_of(quantized_type(weights), source, to, shape[axis]).reshape(row)
    real = r(MulOp(wide(total, "float32"), r.weight(factor, "factor")))
    if not isinstance(to, UniformQuantizedType):
        return real
    shifted = r(AddOp(r(RoundOp(real)), number(zero_of(to), np.float32)))
    smallest, largest = stored_limits(to, op.low, op.high)
    inside = r(ClipOp(shifted, min=float(smallest), max=float(largest)))
    name = f"{'' if to.signed else 'u'}int{to.storage.width.data}"
    return r(BitCastOp(wide(inside, name), results=op.result.type))


def _fits(
    weights: np.ndarray, op: RequantizingOp, source: UniformQuantizedType, bias: np.ndarray | None
) -> bool:
    """Whether 32 bits hold every sum of products and bias, whatever the input is."""
    zero = zero_of(source)
    furthest = max(32767 - zero, 32768 + zero)
    # Filters have their outputs first, weights of fully connected layers last.
    outputs = 0 if isinstance(op, QuantizedConvOp) else weights.ndim - 1
    axes = tuple(a for a in range(weights.ndim) if a != outputs)
    largest = int(np.abs(weights.astype(np.int64)).sum(axis=axes).max(initial=0)) * furthest
    added = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
    return largest + added < 1 << 31


def _bytes_of(x: SSAValue, kind: UniformQuantizedType, r: Rewriter) -> tuple[SSAValue, SSAValue]:
    """The upper bytes and the lower ones, unsigned, with the zero point's as zero points.

    Kernels take unsigned bytes: the upper ones are stored 128 higher.
    """
    shape, zero = shape_of(x), zero_of(kind)
    parts: list[SSAValue] = []
    plain = r(BitCastOp(x, results=tensor(shape, "int16")))
    upper = r(
        AddOp(r(ShiftRightOp(plain, r.weight(np.array(8, np.int16)))), r.weight(np.array(128, np.int16)))
    )
    lower = r(BitwiseAndOp(plain, r.weight(np.array(255, np.int16))))
    for value, part, scale in ((upper, (zero >> 8) + 128, 256.0), (lower, zero & 255, 1.0)):
        stored = UniformQuantizedType.of(8, scale * scale_of(kind), part, signed=False)
        narrow = r(CastOp(value, results=tensor(shape, "uint8")))
        parts.append(r(BitCastOp(narrow, results=tensor(shape, stored))))
    return parts[0], parts[1]


PATTERNS = (Pattern((QuantizedConvOp,), conv), Pattern((QuantizedFullyConnectedOp,), fully_connected))


@dataclass(frozen=True)
class CpuHalvesPass(GraphPass):
    """Compute layers on 16-bit integers by the kernels of bytes."""

    name = "glow-cpu-halves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
