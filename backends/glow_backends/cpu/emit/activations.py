"""Activations of vectors, and the error function that one of them is made of."""

from __future__ import annotations

import math

from llvmlite import ir

from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.emit.vecmath import (
    LEAST,
    add_exponent,
    add_exponent_down,
    exp,
    exp_parts,
    libm,
    log,
    log1p,
    scaled,
)

# erf(x) / x - 1 in x^2, x <= 0.85
_ERF32_NEAR = (0.1283791661, -0.3761257231, 0.1128271744, -0.02680254728, 0.005051094573, -0.0006315127248)
# -log(erfc(x)) / x - 1, 0 <= x <= 4, weighted for the error of erf(x); beyond it grows faster than that
_ERF32 = (
    0.128379167, 0.6366198446, 0.1027711079, -0.01911665496, -0.0002561017296, 0.001804118248,
    -0.0007448859259, 0.0001695553231, -2.188753023e-05, 1.248500609e-06,
)  # fmt: skip
# e^(x^2 / 2) P(N > x) for normal N, 0 <= x <= 15: numerator and denominator
_TAIL32 = (
    (0.5000000031, 0.4392809087, 0.1839671556, 0.04088042639, 0.004153116451),
    (1.0, 1.676446824, 1.205540293, 0.4714034353, 0.1024781496, 0.01041020745),
)
_TAIL_END = 13.17
"""Where x P(N > x) is no normal number any more."""
_NORMAL = {True: -87.0, False: -708.0}
"""Where e^x is as small: networks with inputs far below 0 are not to pay for denormal results."""


def _gated(gate: Vec, x: Vec | None, least: float | None = None) -> Vec:
    """x sigmoid(gate), x 1 where it is None: small results with all their bits, denormal ones included, or
    nothing where the gate is below `least`."""
    least = LEAST[gate.single] if least is None else least
    shifted, p = exp_parts(_within(-gate.abs(), least))
    m = p + 1.0
    negative = gate.compare("<", 0.0)
    top = m.where(negative, 1.0)
    value = (top if x is None else top * x).over(add_exponent_down(m, shifted) + 1.0)
    value = scaled(value, shifted).where(negative, value)
    return _unless_far(x, gate, value, least)


def _within(x: Vec, least: float) -> Vec:
    """x, or another number that counts as little beside 1 where it is below `least`: denormal numbers on the
    way to a result that is not taken cost a processor some hundred cycles."""
    return x.of(-60.0).where(x.compare("<", least), x)


def _unless_far(x: Vec | None, gate: Vec, value: Vec, least: float) -> Vec:
    """`value`, or x 0 where the gate is below `least`: NaN at an infinity, as the product of x and 0 is."""
    nothing = gate.of(0.0) if x is None else x * 0.0
    return nothing.where(gate.compare("<", least), value)


def sigmoid(x: Vec) -> Vec:
    """1 / (1 + e^-x)."""
    return _gated(x, None)


def swish(x: Vec, alpha: float = 1.0) -> Vec:
    """x sigmoid(alpha x)."""
    return _gated(x if alpha == 1.0 else x * alpha, x)


def gelu_tanh(x: Vec) -> Vec:
    """x P(N < x) by the tanh approximation, 0.5 (1 + tanh u) = sigmoid(2 u)."""
    c = 2.0 * math.sqrt(2.0 / math.pi)
    return _gated(x * (x * x).fma(c * 0.044715, c), x, _NORMAL[x.single])


def softplus(x: Vec) -> Vec:
    """log(1 + e^x) without overflow."""
    return x.at_least(0.0) + log1p(exp(-x.abs()))


def mish(x: Vec) -> Vec:
    """x tanh(softplus(x)), by tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2)."""
    least = LEAST[x.single]
    shifted, p = exp_parts(_within(x.at_most(30.0), least))
    m = p + 1.0
    e = add_exponent_down(m, shifted)
    negative = x.compare("<", 0.0)
    more = e + 2.0
    value = (m.where(negative, e) * more).over(e.fma(more, 2.0)) * x
    return _unless_far(x, x, scaled(value, shifted).where(negative, value), least)


_SIXTH = {True: (0.1666666716337204, -4.967053731282552e-09), False: (1 / 6, 9.25185853854297e-18)}


def hard_swish(x: Vec) -> Vec:
    """x clip(x + 3, 0, 6) / 6, the quotient in one rounding."""
    gate = (x + 3.0).at_least(0.0).at_most(6.0)
    sixth, rest = _SIXTH[x.single]
    return x * gate.fma(sixth, gate * rest)


def erf(x: Vec) -> Vec:
    """The error function: a polynomial, from 0.85 on 1 - e^-p by one polynomial p(|x|)."""
    if not x.single:
        return libm(x, "erf")
    a = x.abs().at_most(4.0)
    shifted, p = exp_parts(-a.fma(a.polynomial(_ERF32), a), exact=False)
    power = add_exponent(x.of(1.0), shifted)
    far = -power.fma(p, power - 1.0)
    z = x * x
    return x.fma(z.polynomial(_ERF32_NEAR), x).where(a.compare("<", 0.85), far.copysign(x))


def gelu(x: Vec) -> Vec:
    """x P(N < x) for normal N, the exact form: max(x, 0) - |x| P(N > |x|)."""
    if not x.single:
        return x * 0.5 * libm(x * -math.sqrt(0.5), "erfc")
    a = x.abs()
    a = a.of(10.0).where(a.compare(">", _TAIL_END), a)  # as `_within`
    square = a * a
    shifted, p = exp_parts(square * -0.5)
    m = p + 1.0
    m = (m * -0.5).fma(a.fma(a, -square), m)
    top, low = (a.polynomial(part) for part in _TAIL32)
    result = x.at_least(0.0) - scaled((a * top * m).over(low), shifted)
    return (x * 0.0).where(x.compare("<", -_TAIL_END), result.copysign(x))


def logit(x: Vec) -> Vec:
    """log(x / (1 - x)), with the parts of the quotient that its rounding lost."""
    rest = 1.0 - x
    ratio = x / rest
    lost = (-ratio).fma(rest, x) - ratio * ((1.0 - rest) - x)
    inside: ir.Value = x.k.b.and_(x.compare(">", 0.0), x.compare("<", 1.0))
    return log(ratio, (lost / x).where(inside, 0.0))
