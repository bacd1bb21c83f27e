"""Rules of QONNX, the form in which Brevitas and FINN write networks of any number of bits.

Its nodes round a real tensor to the reals that integers of some bits stand for. What 8 bits hold becomes a
conversion to stored integers and back, so that layers between such nodes run on integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, CeilOp, FloorOp, RoundOp, SignOp, TruncOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.quantization import as_real, as_stored, kind_of
from glow_frontends.onnx.rules.rule import Versions


def _mirrored(inner: Callable[[Emitter, Value], Value]) -> Callable[[Emitter, Value], Value]:
    """Rounding of magnitudes, whose sign is kept."""
    return lambda g, x: g(MulOp, g(SignOp, x), inner(g, g(AbsOp, x)))


ROUNDINGS: dict[str, Callable[[Emitter, Value], Value]] = {
    "ROUND": lambda g, x: g(RoundOp, x),
    "HALF_EVEN": lambda g, x: g(RoundOp, x),
    "CEIL": lambda g, x: g(CeilOp, x),
    "FLOOR": lambda g, x: g(FloorOp, x),
    "DOWN": lambda g, x: g(TruncOp, x),
    "ROUND_TO_ZERO": lambda g, x: g(TruncOp, x),
    "UP": _mirrored(lambda g, x: g(CeilOp, x)),
    "HALF_UP": _mirrored(lambda g, x: g(FloorOp, g(AddOp, x, g.like(0.5, x)))),
    "HALF_DOWN": _mirrored(lambda g, x: g(CeilOp, g(SubOp, x, g.like(0.5, x)))),
}


def _rounding(n: Node, default: str) -> tuple[str, Callable[[Emitter, Value], Value]]:
    name = n.text("rounding_mode", default).upper()
    if name not in ROUNDINGS:
        raise RuleError(f"rounding_mode '{name}', expected one of {', '.join(ROUNDINGS)}")
    return name, ROUNDINGS[name]


def _range(n: Node, bits: float, signed: bool) -> tuple[int, int]:
    """The least and largest integer of some bits; a `narrow` range lacks the last of one side."""
    if not 1 <= bits <= 32 or bits != int(bits):
        raise RuleError(f"{bits} bits, expected an integer from 1 to 32")
    count, narrow = 1 << int(bits), n.integer("narrow", 0)
    return (-count // 2 + narrow, count // 2 - 1) if signed else (0, count - 1 - narrow)


def quant(g: Emitter, n: Node) -> Value:
    """Quant: (round(clip(x / scale + zero point)) - zero point) * scale."""
    x, scale, zero = n[0], n[1], n[2]
    low, high = _range(n, float(g.scalar(n[3], "the number of bits")), bool(n.integer("signed", 1)))
    name, rounding = _rounding(n, "ROUND")
    if name in ("ROUND", "HALF_EVEN") and isinstance(scale, np.ndarray) and isinstance(zero, np.ndarray):
        held = _as_bytes(g, x, scale, zero, (low, high))
        if held is not None:
            return held
    stored = g(AddOp, g(DivOp, x, scale), zero)
    stored = rounding(g, g(ClipOp, stored, min=float(low), max=float(high)))
    return g(MulOp, g(SubOp, stored, zero), scale)


def _as_bytes(g: Emitter, x: Value, scale: Array, zero: Array, limits: tuple[int, int]) -> Value | None:
    """The same by way of stored bytes; None where these do not hold it.

    An odd zero point would turn ties of the rounding, to even, around.
    """
    low, high = limits
    axes = [i for i, d in enumerate(scale.shape) if d != 1]
    if low < -128 or high > (127 if low < 0 else 255) or len(axes) > 1 or (zero % 2 != 0).any():
        return None
    if axes and (scale.ndim != rank(x) or zero.size not in (1, scale.size)):
        return None
    dtype: np.dtype[Any] = np.dtype(np.int8 if low < 0 else np.uint8)
    zeros = np.broadcast_to(zero, scale.shape) if zero.size == 1 else zero
    if dtype_of_value(x) != np.float32 or (zeros < low).any() or (zeros > high).any():
        return None
    kind = kind_of(x, scale.reshape(-1), zeros.reshape(-1).astype(dtype), dtype, axes[0] if axes else 0)
    if kind is None:
        return None
    if isinstance(x, np.ndarray):
        known = np.round(np.clip(x / scale + zeros, low, high))
        return as_real(g, known.astype(dtype), kind)
    stored = as_stored(g, x, kind, dtype)
    if (low, high) != ((-128, 127) if low < 0 else (0, 255)):
        stored = g(ClipOp, stored, min=float(low), max=float(high))
    return as_real(g, stored, kind)


def bipolar_quant(g: Emitter, n: Node) -> Value:
    """BipolarQuant: scale where x is 0 or more, -scale elsewhere."""
    x = n[0]
    sign = g(SelectOp, g(CmpGeOp, x, g.like(0, x)), g.like(1, x), g.like(-1, x))
    return g(MulOp, sign, n[1])


def trunc(g: Emitter, n: Node) -> Value:
    """Trunc, the upper bits of integers: x, scale, zero point, bits before and after."""
    x, scale, zero = n[0], n[1], n[2]
    before, after = (float(g.scalar(n[i], "the number of bits")) for i in (3, 4))
    _, rounding = _rounding(n, "FLOOR")
    whole = g(RoundOp, g(AddOp, g(DivOp, x, scale), zero))
    kept = rounding(g, g(DivOp, whole, g.like(2 ** (before - after), x)))
    return g(MulOp, g(SubOp, kept, zero), scale)


def trunc_2(g: Emitter, n: Node) -> Value:
    """Trunc of version 2: x, scale, zero point, bits before, scale and bits after."""
    x, scale, zero, scale_after = n[0], n[1], n[2], g.known(n[4], "the scale")
    steps = np.asarray(2 ** np.round(np.log2(scale_after / g.known(scale, "the scale"))), np.float32)
    bits = float(g.scalar(n[5], "the number of bits"))
    low, high = _range(n, bits, bool(n.integer("signed", 1)))
    whole = g(RoundOp, g(AddOp, g(DivOp, x, scale), zero))
    kept = g(ClipOp, g(DivOp, whole, steps), min=float(low), max=float(high))
    kept = _rounding(n, "FLOOR")[1](g, kept)
    return g(MulOp, g(SubOp, kept, g(DivOp, zero, steps)), scale_after)


RULES: dict[str, Versions] = {
    "BipolarQuant": bipolar_quant,
    "IntQuant": quant,
    "Quant": quant,
    "Trunc": ((0, trunc), (2, trunc_2)),
}
