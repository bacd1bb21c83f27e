"""The rules of element-wise steps: one formula an op, for floats, integers and booleans."""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from glow_backends.cpu.emit import activations, double_math, hyperbolic, trigonometry, vecmath
from glow_backends.cpu.emit.builder import CodeBuilder
from glow_backends.cpu.emit.values import Vec, constant, is_float, is_signed, with_element, zero
from glow_dialects.ops import operators

Param = float | int | str | bool | None


def bits_of(kind: ir.Type) -> int:
    """Bits of an integer type, or of the elements of a vector of them."""
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    assert isinstance(element, ir.IntType)
    return element.width


def power_by(x: Vec, y: Vec, exponent: float | None) -> Vec:
    """x^y, by products where the exponent is a small constant."""
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if exponent == 1:
        return x
    if exponent == -1:
        return 1.0 / x
    if exponent == 0.5:  # of -0 it is 0, of -inf inf
        return x.of(math.inf).where(x.compare("==", -math.inf), (x + 0.0).sqrt())
    return vecmath.power(x, y)


# Comparisons and classes.
COMPARE = {
    "cmp_eq": "==", "cmp_ne": "!=", "cmp_lt": "<", "cmp_le": "<=", "cmp_gt": ">", "cmp_ge": ">=",
}  # fmt: skip


def compare(k: CodeBuilder, operator: str, x: ir.Value, y: ir.Value, dtype: str) -> ir.Value:
    """Lane-wise comparison of two values of `dtype`; with NaN only != holds."""
    if is_float(dtype):
        if operator == "!=":
            return k.b.fcmp_unordered(operator, x, y)
        return k.b.fcmp_ordered(operator, x, y)
    if is_signed(dtype):
        return k.b.icmp_signed(operator, x, y)
    return k.b.icmp_unsigned(operator, x, y)


def classify(k: CodeBuilder, op: str, x: ir.Value, dtype: str, params: tuple[Param, ...]) -> ir.Value:
    """The is_nan and is_inf steps; params of is_inf: (negative, positive), both by default."""
    if not is_float(dtype):
        return zero(with_element(x.type, ir.IntType(1)))
    value = Vec(k, x)
    if op == "is_nan":
        return value.compare("uno", value)
    negative, positive = (bool(p) for p in params) if params else (True, True)
    if negative and positive:
        return value.abs().compare("==", math.inf)
    if negative or positive:
        return value.compare("==", math.inf if positive else -math.inf)
    return zero(with_element(x.type, ir.IntType(1)))


# Floating point. Every rule takes the operands and the parameters of the step.
FloatRule = Callable[[list[Vec], tuple[Param, ...]], Vec]


def _number(params: tuple[Param, ...], position: int, default: float) -> float:
    if position >= len(params) or params[position] is None:
        return default
    value = params[position]
    assert isinstance(value, float | int)
    return float(value)


def _unary(rule: Callable[[Vec], Vec]) -> FloatRule:
    return lambda x, _: rule(x[0])


def _intrinsic(name: str) -> FloatRule:
    return lambda x, _: x[0].unary(name)


def _folded(rule: Callable[[Vec, Vec], Vec]) -> FloatRule:
    """A binary rule applied from the left over any number of operands."""

    def fold(x: list[Vec], _: tuple[Param, ...]) -> Vec:
        total = x[0]
        for other in x[1:]:
            total = rule(total, other)
        return total

    return fold


def maximum(x: Vec, y: Vec) -> Vec:
    """The larger; NaN if either is NaN."""
    return x.where(x.compare("uno", x), x.where(x.compare(">", y), y))


def minimum(x: Vec, y: Vec) -> Vec:
    """The smaller; NaN if either is NaN."""
    return x.where(x.compare("uno", x), x.where(x.compare("<", y), y))


def _python_mod(x: Vec, y: Vec) -> Vec:
    """The remainder with the sign of the divisor."""
    r = vecmath.libm(x, "fmod", y)
    b = x.k.b
    moved = (r + y).where(b.xor(r.compare("<", 0.0), y.compare("<", 0.0)), r)
    return r.of(0.0).copysign(y).where(r.compare("==", 0.0), moved)


def _floor_div(x: Vec, y: Vec) -> Vec:
    r, b = vecmath.libm(x, "fmod", y), x.k.b
    quotient = (x - r) / y
    below = b.and_(r.compare("!=", 0.0), b.xor(r.compare("<", 0.0), y.compare("<", 0.0)))
    quotient = (quotient - 1.0).where(below, quotient)
    low = quotient.unary("floor")
    low = (low + 1.0).where((quotient - low).compare(">", 0.5), low)
    plain = x / y
    low = low.of(0.0).copysign(plain).where(low.compare("==", 0.0), low)
    return low.where(y.compare("!=", 0.0), plain)


def _sign(x: Vec) -> Vec:
    below = x.of(-1.0).where(x.compare("<", 0.0), x + 0.0)  # 0 of -0
    return x.of(1.0).where(x.compare(">", 0.0), below)


def _elu(x: Vec, alpha: float, scale: float = 1.0, stretch: float = 1.0) -> Vec:
    """scale x above zero, scale alpha (e^(x / stretch) - 1) below."""
    inner = x if stretch == 1.0 else x / stretch
    below = vecmath.expm1(inner.at_most(0.0), negative=True) * (alpha * scale)
    above = x if scale == 1.0 else x * scale
    return below.where(x.compare("<", 0.0), above)


def _clip(x: list[Vec], params: tuple[Param, ...]) -> Vec:
    value = x[0]
    low, high = _number(params, 0, -math.inf), _number(params, 1, math.inf)
    if low > -math.inf:
        value = value.at_least(low)
    if high < math.inf:
        value = value.at_most(high)
    return value


def _hard_sigmoid(x: Vec, alpha: float, beta: float) -> Vec:
    return (x * alpha + beta).at_least(0.0).at_most(1.0)


def _leaky(x: Vec, slope: Vec | float) -> Vec:
    return (x * slope).where(x.compare("<", 0.0), x)


def _gelu(x: list[Vec], params: tuple[Param, ...]) -> Vec:
    approximate = bool(params) and params[0] not in (False, "none", None, 0)
    return activations.gelu_tanh(x[0]) if approximate else activations.gelu(x[0])


def _logit(x: list[Vec], params: tuple[Param, ...]) -> Vec:
    value, eps = x[0], _number(params, 0, -1.0)
    if eps >= 0:
        # The bounds in the arithmetic of the elements.
        high = value.of(1.0) - value.of(eps)
        value = value.at_least(eps)
        value = high.where(value.compare(">", high), value)
    return activations.logit(value)


_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875

FLOAT: dict[str, FloatRule] = {
    **{
        name: _unary(vars(module)[name])
        for module in (vecmath, trigonometry, hyperbolic, activations, double_math)
        for name in operators()
        if name in vars(module)
    },
    "add": _folded(lambda x, y: x + y),
    "sub": _folded(lambda x, y: x - y),
    "mul": _folded(lambda x, y: x * y),
    "div": _folded(lambda x, y: x / y),
    "max": _folded(maximum),
    "min": _folded(minimum),
    "mod": _folded(_python_mod),
    "fmod": _folded(lambda x, y: vecmath.libm(x, "fmod", y)),
    "floor_div": _folded(_floor_div),
    "neg": _unary(lambda x: -x),
    "abs": _intrinsic("fabs"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round": _intrinsic("roundeven"),
    "trunc": _intrinsic("trunc"),
    "sqrt": _intrinsic("sqrt"),
    "sign": _unary(_sign),
    "rsqrt": _unary(lambda x: 1.0 / x.sqrt()),
    "reciprocal": _unary(lambda x: 1.0 / x),
    "relu": _unary(lambda x: x.at_least(0.0)),
    "leaky_relu": lambda x, p: _leaky(x[0], _number(p, 0, 0.01)),
    "prelu": _folded(_leaky),
    "elu": lambda x, p: _elu(x[0], _number(p, 0, 1.0)),
    "celu": lambda x, p: _elu(x[0], _number(p, 0, 1.0), 1.0, _number(p, 0, 1.0)),
    "selu": lambda x, p: _elu(x[0], _number(p, 0, _SELU_ALPHA), _number(p, 1, _SELU_GAMMA)),
    "hard_sigmoid": lambda x, p: _hard_sigmoid(x[0], _number(p, 0, 0.2), _number(p, 1, 0.5)),
    "hard_swish": _unary(activations.hard_swish),
    "thresholded_relu": lambda x, p: x[0].where(x[0].compare(">", _number(p, 0, 1.0)), 0.0),
    "softsign": _unary(lambda x: x / (x.abs() + 1.0)),
    "clip": _clip,
    "gelu": _gelu,
    "swish": lambda x, p: activations.swish(x[0], _number(p, 0, 1.0)),
    "logit": _logit,
    "replace_nan": lambda x, p: x[0].of(_number(p, 0, 0.0)).where(x[0].compare("uno", x[0]), x[0]),
    **{name: _folded(getattr(double_math, name)) for name in ("atan2", "copysign", "hypot")},
}  # fmt: skip


# Integers: rule(k, operands, signed, params).
IntegerRule = Callable[[CodeBuilder, list[ir.Value], bool, tuple[Param, ...]], ir.Value]


def _less(k: CodeBuilder, signed: bool, x: ir.Value, y: ir.Value) -> ir.Value:
    return k.b.icmp_signed("<", x, y) if signed else k.b.icmp_unsigned("<", x, y)


def _divide(k: CodeBuilder, x: ir.Value, y: ir.Value, signed: bool) -> tuple[ir.Value, ir.Value]:
    """(quotient towards zero, remainder); a zero divisor gives 0, as NumPy does, not a trap."""
    b, one = k.b, constant(x.type, 1)
    none = b.icmp_signed("==", y, zero(y.type))
    if not signed:
        safe = b.select(none, one, y)
        quotient = b.select(none, zero(x.type), b.udiv(x, safe))
    else:
        minus = b.icmp_signed("==", y, constant(y.type, -1))
        safe = b.select(b.or_(none, minus), one, y)
        quotient = b.select(minus, b.neg(x), b.sdiv(x, safe))
        quotient = b.select(none, zero(x.type), quotient)
    return quotient, b.select(none, zero(x.type), b.sub(x, b.mul(quotient, y)))


def _integer_floor(k: CodeBuilder, x: ir.Value, y: ir.Value, signed: bool, rest: bool) -> ir.Value:
    """Floor division, or its remainder (which has the sign of the divisor)."""
    quotient, remainder = _divide(k, x, y, signed)
    if signed:
        b = k.b
        differs = b.icmp_signed("<", b.xor(remainder, y), zero(x.type))
        move = b.and_(differs, b.icmp_signed("!=", remainder, zero(x.type)))
        quotient = b.sub(quotient, b.zext(move, x.type))
        remainder = b.select(move, b.add(remainder, y), remainder)
    return remainder if rest else quotient


def _shift(k: CodeBuilder, x: ir.Value, y: ir.Value, left: bool, signed: bool) -> ir.Value:
    """x moved by y bits; outside of the width nothing is left, or to the right the sign."""
    last = constant(y.type, bits_of(x.type) - 1)
    inside = k.b.icmp_unsigned("<=", y, last)
    if signed and not left:
        return k.b.ashr(x, k.b.select(inside, y, last))
    moved = (k.b.shl if left else k.b.lshr)(x, k.b.and_(y, last))
    return k.b.select(inside, moved, zero(x.type))


def _integer_sign(k: CodeBuilder, x: ir.Value, signed: bool) -> ir.Value:
    positive = k.b.zext(k.b.icmp_signed("!=", x, zero(x.type)), x.type)
    if not signed:
        return positive
    return k.b.or_(k.b.ashr(x, constant(x.type, bits_of(x.type) - 1)), positive)


def _integer_fold(
    rule: Callable[[CodeBuilder, ir.Value, ir.Value, bool], ir.Value],
) -> IntegerRule:
    def fold(k: CodeBuilder, x: list[ir.Value], signed: bool, _: tuple[Param, ...]) -> ir.Value:
        total = x[0]
        for other in x[1:]:
            total = rule(k, total, other, signed)
        return total

    return fold


def _integer_unary(rule: Callable[[CodeBuilder, ir.Value, bool], ir.Value]) -> IntegerRule:
    return lambda k, x, signed, _: rule(k, x[0], signed)


def _larger(k: CodeBuilder, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    return k.b.select(_less(k, signed, x, y), y, x)


def _smaller(k: CodeBuilder, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    return k.b.select(_less(k, signed, y, x), y, x)


def _integer_clip(k: CodeBuilder, x: list[ir.Value], signed: bool, params: tuple[Param, ...]) -> ir.Value:
    bits = bits_of(x[0].type)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    value = x[0]
    below, above = _number(params, 0, -math.inf), _number(params, 1, math.inf)
    if below > low:
        value = _larger(k, value, constant(value.type, math.ceil(min(below, high))), signed)
    if above < high:
        value = _smaller(k, value, constant(value.type, math.floor(max(above, low))), signed)
    return value


_SAME: IntegerRule = _integer_unary(lambda k, x, s: x)

INTEGER: dict[str, IntegerRule] = {
    "add": _integer_fold(lambda k, x, y, s: k.b.add(x, y)),
    "sub": _integer_fold(lambda k, x, y, s: k.b.sub(x, y)),
    "mul": _integer_fold(lambda k, x, y, s: k.b.mul(x, y)),
    "div": _integer_fold(lambda k, x, y, s: _divide(k, x, y, s)[0]),
    "fmod": _integer_fold(lambda k, x, y, s: _divide(k, x, y, s)[1]),
    "mod": _integer_fold(lambda k, x, y, s: _integer_floor(k, x, y, s, True)),
    "floor_div": _integer_fold(lambda k, x, y, s: _integer_floor(k, x, y, s, False)),
    "max": _integer_fold(_larger),
    "min": _integer_fold(_smaller),
    "neg": _integer_unary(lambda k, x, s: k.b.neg(x)),
    "abs": _integer_unary(lambda k, x, s: _larger(k, x, k.b.neg(x), True) if s else x),
    "sign": _integer_unary(_integer_sign),
    "relu": _integer_unary(lambda k, x, s: _larger(k, x, zero(x.type), s)),
    "floor": _SAME,
    "ceil": _SAME,
    "round": _SAME,
    "trunc": _SAME,
    "clip": _integer_clip,
    "bitwise_and": _integer_fold(lambda k, x, y, s: k.b.and_(x, y)),
    "bitwise_or": _integer_fold(lambda k, x, y, s: k.b.or_(x, y)),
    "bitwise_xor": _integer_fold(lambda k, x, y, s: k.b.xor(x, y)),
    "bitwise_not": _integer_unary(lambda k, x, s: k.b.not_(x)),
    "shift_left": _integer_fold(lambda k, x, y, s: _shift(k, x, y, True, s)),
    "shift_right": _integer_fold(lambda k, x, y, s: _shift(k, x, y, False, s)),
}

_AND = ("and", "bitwise_and", "mul", "min")
_OR = ("or", "bitwise_or", "add", "max")

BOOLEAN: dict[str, Callable[[CodeBuilder, list[ir.Value]], ir.Value]] = {
    **{name: lambda k, x: k.b.and_(x[0], x[1]) for name in _AND},
    **{name: lambda k, x: k.b.or_(x[0], x[1]) for name in _OR},
    **{name: lambda k, x: k.b.xor(x[0], x[1]) for name in ("xor", "bitwise_xor", "sub")},
    **{name: lambda k, x: k.b.not_(x[0]) for name in ("not", "bitwise_not")},
}
