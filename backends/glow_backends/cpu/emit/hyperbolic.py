"""Hyperbolic functions of vectors and their inverses: f32 as polynomials, f64 by libm but for tanh."""

from __future__ import annotations

import math

from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.emit.vecmath import (
    add_exponent,
    exp_parts,
    exp_scaled,
    libm,
    log,
    log1p,
    log1p_parts,
    scaled,
)

# (f(x) - x) / x^3 in x^2: sinh, x <= 1; asinh and atanh, x <= 1/2
_SINH32 = (0.1666666716, 0.0083333496, 0.0001983615948, 2.816951337e-06)
_ASINH32 = (-0.1666664332, 0.07498651743, -0.04438451305, 0.02816910855, -0.01323750149)
_ATANH32 = (0.3333330154, 0.2000251859, 0.1422276199, 0.1182372719, 0.05135836452, 0.1766910106)
_FAR = 1e9
"""Beyond it the square is that of the number and a little."""


def _odd(x: Vec, coefficients: tuple[float, ...]) -> Vec:
    """x + x^3 P(x^2)."""
    z = x * x
    return (x * z).fma(z.polynomial(coefficients), x)


def tanh(x: Vec) -> Vec:
    """Hyperbolic tangent."""
    shifted, p = exp_parts((x.abs() * -2.0).at_least(-40.0))
    power = add_exponent(x.of(1.0), shifted)
    t = power.fma(p, power - 1.0)  # e^(-2 |x|) - 1
    return (-t).over(t + 2.0).copysign(x)


def _half_exp(x: Vec) -> Vec:
    """e^x / 2, which is finite where sinh and cosh are."""
    shifted, m = exp_scaled(x.at_most(90.0))
    return scaled(m, shifted - 1.0)


def sinh(x: Vec) -> Vec:
    """Hyperbolic sine."""
    if not x.single:
        return libm(x, "sinh")
    a = x.abs()
    e = _half_exp(a)
    return _odd(a, _SINH32).where(a.compare("<", 1.0), e - 0.25 / e).copysign(x)


def cosh(x: Vec) -> Vec:
    """Hyperbolic cosine."""
    if not x.single:
        return libm(x, "cosh")
    e = _half_exp(x.abs())
    return e + 0.25 / e


def asinh(x: Vec) -> Vec:
    """Inverse hyperbolic sine."""
    if not x.single:
        return libm(x, "asinh")
    a = x.abs()
    z = a * a
    more = z / ((z + 1.0).sqrt() + 1.0)
    t = a + more
    u, low = log1p_parts(t, (a - t) + more)
    far = a.compare(">", _FAR)
    result = log(a.where(far, u), a.of(0.0).where(far, low), far)
    return _odd(a, _ASINH32).where(a.compare("<", 0.5), result).copysign(x)


def acosh(x: Vec) -> Vec:
    """Inverse hyperbolic cosine; NaN below 1."""
    if not x.single:
        return libm(x, "acosh")
    t = x - 1.0
    twice = t + t
    square = t.fma(t, twice)
    root = square.sqrt()
    lost = ((-root).fma(root, square) + t.fma(t, twice - square)) * 0.5 / root
    total = root + t
    u, low = log1p_parts(total, ((root - total) + t) + lost)
    far = x.compare(">", _FAR)
    result = log(x.where(far, u), x.of(0.0).where(far, low), far)
    result = result.where(x.compare(">", 1.0), math.nan)
    return t.where(x.compare("==", 1.0), result)


def atanh(x: Vec) -> Vec:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    if not x.single:
        return libm(x, "atanh")
    a = x.abs()
    far = log1p(a * 2.0 / (1.0 - a)) * 0.5
    return _odd(a, _ATANH32).where(a.compare("<", 0.5), far).copysign(x)
