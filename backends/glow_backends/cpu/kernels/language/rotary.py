"""Rotary positions: pairs of features rotated by the angle of their token's position."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import maximum, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.rotary import RotaryOp


@dataclass(frozen=True)
class RotarySpec:
    """x [batch, tokens, heads, depth], f32, the first 2 `pairs` features turned.

    Operands: result, x, cos and sin [places, pairs], starts (i32, one a batch).
    """

    batch: int
    tokens: int
    heads: int
    depth: int
    places: int
    pairs: int
    interleaved: bool


def number(k: KernelBuilder, pointer: ir.Value, at: Index) -> ir.Value:
    """An i32 of memory as an index."""
    return k.b.sext(k.load(pointer, at, I32), I64)


def emit_rotary(module: ir.Module, name: str, spec: RotarySpec, target: CpuTarget) -> ir.Function:
    """Emit the turns: the angles of a token serve all its heads."""
    k = KernelBuilder(module, name, 5, target, sized=True)
    result, x, cos, sin, starts = k.operands
    size = 8 * spec.batch * spec.tokens * spec.heads * spec.depth
    with common.nest(k, [spec.batch, spec.tokens], size) as (batch, token):
        place = k.add(number(k, starts, batch), token)
        place = maximum(k, minimum(k, place, k.size(spec.places - 1)), 0)
        angles = k.mul(place, spec.pairs)
        row = k.mul(k.add(k.mul(batch, k.size(spec.tokens)), token), spec.heads * spec.depth)
        with k.loop(0, spec.heads) as head:
            start = k.add(row, k.mul(head, spec.depth))
            for pair, lanes, active in common.strips(k, 0, spec.pairs, target.lanes, 1):
                at = k.add(angles, pair)
                c, s = (values.load(k, t, at, "f32", lanes, active) for t in (cos, sin))
                turn = _neighbours if spec.interleaved else _halves
                turn(k, spec, (result, x), start, (pair, lanes, active), (c, s))
            for feature, lanes, active in common.strips(
                k, 2 * spec.pairs, spec.depth - 2 * spec.pairs, target.lanes, 1
            ):
                at = k.add(start, feature)
                rest = values.load(k, x, at, "f32", lanes, active)
                values.store(k, rest, result, at, "f32", active)
    return k.finish()


_Strip = tuple[Index, int, int]
"""First pair, lanes, active lanes."""


def _halves(
    k: KernelBuilder,
    spec: RotarySpec,
    buffers: tuple[ir.Value, ir.Value],
    start: Index,
    strip: _Strip,
    angles: tuple[ir.Value, ir.Value],
) -> None:
    """Pairs of features `pairs` apart."""
    (result, x), (pair, lanes, active) = buffers, strip
    first = k.add(start, pair)
    second = k.add(first, spec.pairs)
    a, b = (values.load(k, x, at, "f32", lanes, active) for at in (first, second))
    for value, at in zip(_turned(k, a, b, angles), (first, second), strict=True):
        values.store(k, value, result, at, "f32", active)


def _neighbours(
    k: KernelBuilder,
    spec: RotarySpec,
    buffers: tuple[ir.Value, ir.Value],
    start: Index,
    strip: _Strip,
    angles: tuple[ir.Value, ir.Value],
) -> None:
    """Pairs of neighbouring features."""
    del spec
    (result, x), (pair, lanes, active) = buffers, strip
    at = k.add(start, k.mul(pair, 2))
    if lanes == 1:
        made = _turned(k, k.load(x, at), k.load(x, k.add(at, 1)), angles)
        for i, value in enumerate(made):
            k.store(value, result, k.add(at, i))
        return
    both = values.load(k, x, at, "f32", 2 * lanes, 2 * active)
    even, odd = (shuffle_mask(tuple(range(i, 2 * lanes, 2))) for i in (0, 1))
    made = _turned(k, k.b.shuffle_vector(both, both, even), k.b.shuffle_vector(both, both, odd), angles)
    order = shuffle_mask(tuple(i // 2 + lanes * (i % 2) for i in range(2 * lanes)))
    values.store(k, k.b.shuffle_vector(*made, order), result, at, "f32", 2 * active)


def _turned(
    k: KernelBuilder, a: ir.Value, b: ir.Value, angles: tuple[ir.Value, ir.Value]
) -> tuple[ir.Value, ir.Value]:
    c, s = angles
    return k.b.fsub(k.b.fmul(a, c), k.b.fmul(b, s)), k.fma(b, c, k.b.fmul(a, s))


class Rotary(Kernel[RotaryOp, RotarySpec]):
    """Rotary positions of f32."""

    OPS = (RotaryOp,)
    emit = staticmethod(emit_rotary)

    def match(self, op: RotaryOp, context: CallContext) -> RotarySpec | None:
        floats = (op.x, op.cos, op.sin)
        if op.predicate is not None or 0 in shape(op.x) or not shape(op.cos)[1]:
            return None
        if any(dtype_name(v) != "f32" for v in floats):
            return None
        places, pairs = shape(op.cos)
        batch, tokens, heads, depth = shape(op.x)
        return RotarySpec(batch, tokens, heads, depth, places, pairs, op.interleaved)
