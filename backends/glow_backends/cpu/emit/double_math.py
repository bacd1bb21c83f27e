"""Functions on vectors that C's library computes in f64, and doubles in f32: rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from glow_backends.cpu.emit import trigonometry, vecmath
from glow_backends.cpu.emit.builder import F32, F64
from glow_backends.cpu.emit.values import Vec, with_element, zero


def _doubled(name: str, rule: Callable[..., Vec]) -> Callable[..., Vec]:
    """f32 by `rule` on doubles, f64 by C's `name`, or by the rule where no name is given."""

    def function(*x: Vec) -> Vec:
        if not x[0].single:
            return vecmath.libm(x[0], name, *x[1:]) if name else rule(*x)
        k, kind = x[0].k, x[0].v.type
        wide = [Vec(k, k.b.fpext(v.v, with_element(kind, F64))) for v in x]
        return Vec(k, k.b.fptrunc(rule(*wide).v, with_element(kind, F32)))

    return function


def _hypot(x: Vec, y: Vec) -> Vec:
    infinite = x.k.b.or_(x.abs().compare("==", math.inf), y.abs().compare("==", math.inf))
    return x.of(math.inf).where(infinite, (x * x + y * y).sqrt())


def _cbrt(x: Vec) -> Vec:
    """A step of Newton's, which there is not at 0 and infinity, makes roots of cubes whole; C's are not."""
    size = x.abs()
    y = vecmath.exp(vecmath.log(size) * (1 / 3))
    step = y - (y - size / (y * y)) * (1 / 3)
    inside = x.k.b.and_(y.compare(">", 0.0), y.compare("<", math.inf))
    return step.where(inside, y).copysign(x)


def atan2(x: Vec, y: Vec) -> Vec:
    """The angle of the point (y, x)."""
    if not x.single:
        return vecmath.libm(x, "atan2", y)
    high, wide = x.abs(), y.abs()
    diagonal = x.of(math.pi / 4).where(high.compare(">", 0.0), 0.0)
    angle = diagonal.where(high.compare("==", wide), trigonometry.atan(high / wide))
    angle = (math.pi - angle).where(is_negative(y), angle)
    return angle.copysign(x)


def is_negative(x: Vec) -> ir.Value:
    """Whether the sign is that of a negative number."""
    bits = x.bits()
    return x.k.b.icmp_signed("<", bits, zero(bits.type))


log2 = _doubled("log2", lambda x: vecmath.log(x) * (1 / math.log(2)))
log10 = _doubled("log10", lambda x: vecmath.log(x) * (1 / math.log(10)))
hypot = _doubled("hypot", _hypot)
cbrt = _doubled("", _cbrt)


def erfc(x: Vec) -> Vec:
    """1 - erf(x), exact to the right too."""
    return vecmath.libm(x, "erfc")


def copysign(x: Vec, y: Vec) -> Vec:
    """|x| with the sign of y."""
    return x.copysign(y)
