"""Trigonometric functions of vectors and their inverses: f32 as polynomials, f64 by libm lane by lane."""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from glow_backends.cpu.emit.values import Vec, constant, zero
from glow_backends.cpu.emit.vecmath import MAGIC, libm, unless

# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4
_SIN32 = (-0.1666666664, 0.008333329364, -0.0001983932764, 2.718241284e-06)
_COS32 = (0.04166666662, -0.001388888373, 2.479951387e-05, -2.720969799e-07)
# (atan(x) - x) / x^3 in x^2, x <= 1, and (asin(x) - x) / x^3 in x^2, x <= 1/2
_ATAN32 = (
    -0.3333330196, 0.1999864103, -0.1426526841, 0.1095768759, -0.08419765574,
    0.0582395527, -0.03146049764, 0.01106693518, -0.001827755899,
)  # fmt: skip
_ASIN32 = (
    0.1666665989, 0.07500510442, 0.04451574082, 0.03181786099, 0.01440042404, 0.03756969483,
)  # fmt: skip

_PI_2 = (1.5707963705062866, -4.371138828673793e-08, -1.7151244994428765e-15)
_TRIG_LIMIT = 1e5  # beyond it three f32 parts of pi / 2 are not enough, libm is called


Sum = tuple[Vec, Vec]
"""A value as the sum of a number and a small one."""


def _octant(x: Vec) -> tuple[ir.Value, Sum, Sum]:
    """x = q pi / 2 + r: (q modulo 4 in its low bits, sin r, cos r)."""
    shifted = x.fma(2.0 / math.pi, MAGIC[True])
    n = shifted - MAGIC[True]
    high = n.fma(-_PI_2[0], x)  # exact
    second = n * _PI_2[1]
    r = high - second
    rest = n.fma(-_PI_2[2], ((high - r) - second) - n.fma(_PI_2[1], -second))
    z = r * r
    near = z.fma(-0.5, 1.0)
    sine = (r * z).fma(z.polynomial(_SIN32), rest * near)
    cosine = (z * z).fma(z.polynomial(_COS32), z.fma(-0.5, 1.0 - near))
    return shifted.bits(), (r, sine), (near, cosine - r * rest)


def _trig(x: Vec, name: str, core: Callable[[Vec], Vec]) -> Vec:
    """`core` where every lane is inside the reduction's range, else libm."""
    if not x.single:
        return libm(x, name)
    huge = x.abs().compare(">", _TRIG_LIMIT)
    return unless(x, huge, core, lambda y: libm(y, name))


def _pick(q: ir.Value, x: Vec, even: Vec, odd: Vec) -> Vec:
    """`even` or `odd` by bit 0 of q, negated by bit 1."""
    b = x.k.b
    swap = b.icmp_signed("!=", b.and_(q, constant(q.type, 1)), zero(q.type))
    sign = b.shl(b.and_(q, constant(q.type, 2)), constant(q.type, 30))
    return x.from_bits(b.xor(odd.where(swap, even).bits(), sign))


def sin(x: Vec) -> Vec:
    """Sine."""

    def core(y: Vec) -> Vec:
        q, sine, cosine = _octant(y)
        value = _pick(q, y, sine[0] + sine[1], cosine[0] + cosine[1])
        return y.where(y.compare("==", 0.0), value)

    return _trig(x, "sin", core)


def cos(x: Vec) -> Vec:
    """Cosine."""

    def core(y: Vec) -> Vec:
        q, sine, cosine = _octant(y)
        b = y.k.b
        return _pick(b.add(q, constant(q.type, 1)), y, sine[0] + sine[1], cosine[0] + cosine[1])

    return _trig(x, "cos", core)


def _normal(x: Sum) -> Sum:
    """The same sum, whose first part is its rounding."""
    total = x[0] + x[1]
    return total, (x[0] - total) + x[1]


def tan(x: Vec) -> Vec:
    """Tangent."""

    def core(y: Vec) -> Vec:
        q, sine, cosine = _octant(y)
        b = y.k.b
        odd = b.icmp_signed("!=", b.and_(q, constant(q.type, 1)), zero(q.type))
        r = sine[0]
        lost = r.fma(r, -(r * r))
        sine, cosine = _normal(sine), _normal((cosine[0], lost.fma(-0.5, cosine[1])))
        (top, more), (low, rest) = (
            tuple(u.where(odd, v) for u, v in zip(first, second, strict=True))
            for first, second in (((-cosine[0], -cosine[1]), sine), (sine, cosine))
        )
        value = top / low
        value = value + ((-value).fma(low, top) + (more - value * rest)).over(low)
        return y.where(y.compare("==", 0.0), value)

    return _trig(x, "tan", core)


def atan(x: Vec) -> Vec:
    """Arc tangent."""
    if not x.single:
        return libm(x, "atan")
    a = x.abs()
    big = a.compare(">", 1.0)
    t = (1.0 / a).where(big, a)
    z = t * t
    y = (t * z).fma(z.polynomial(_ATAN32), t)
    return ((_PI_2[0] - y) + _PI_2[1]).where(big, y).copysign(x)


def _asin_parts(x: Vec) -> tuple[ir.Value, Vec]:
    """(|x| > 1/2, asin|x| or where above 1/2: asin(sqrt((1 - |x|) / 2)))."""
    a = x.abs()
    big = a.compare(">", 0.5)
    z = ((1.0 - a) * 0.5).where(big, a * a)
    t = z.sqrt().where(big, a)
    return big, (t * z).fma(z.polynomial(_ASIN32), t)


def asin(x: Vec) -> Vec:
    """Arc sine; NaN outside [-1, 1]."""
    if not x.single:
        return libm(x, "asin")
    big, y = _asin_parts(x)
    return ((_PI_2[0] - y * 2.0) + _PI_2[1]).where(big, y).copysign(x)


def acos(x: Vec) -> Vec:
    """Arc cosine; NaN outside [-1, 1]."""
    if not x.single:
        return libm(x, "acos")
    big, y = _asin_parts(x)
    negative = x.compare("<", 0.0)
    far = ((2.0 * _PI_2[0] - y * 2.0) + 2.0 * _PI_2[1]).where(negative, y * 2.0)
    near = (_PI_2[0] - y.copysign(x)) + _PI_2[1]
    return far.where(big, near)
