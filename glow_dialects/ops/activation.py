"""Activations other than relu: each with its gradient, and in smaller operators where it has some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.properties import check_choice, float_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, typed
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpGtOp, CmpLtOp
from glow_dialects.ops.elementwise import FloatUnaryOp, UnaryOp, binary, unary
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, ErfOp, Expm1Op, ExpOp, LogOp, erf

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


class _E:
    """Formulas on values: `e.mul(x, 2.0)` inserts the operators, numbers become scalars."""

    def __init__(self, b: Builder, like: SSAValue) -> None:
        self.b = b
        self.like = like

    def of(self, x: SSAValue | float) -> SSAValue:
        """A value, numbers as rank-0 splats."""
        return x if isinstance(x, SSAValue) else self.b.scalar(x, self.like)

    def add(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        """x + y."""
        return self.b(AddOp(self.of(x), self.of(y)))

    def sub(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        """x - y."""
        return self.b(SubOp(self.of(x), self.of(y)))

    def mul(self, x: SSAValue | float, *others: SSAValue | float) -> SSAValue:
        """The product of all."""
        total = self.of(x)
        for other in others:
            total = self.b(MulOp(total, self.of(other)))
        return total

    def div(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        """x / y."""
        return self.b(DivOp(self.of(x), self.of(y)))

    def where(self, mask: SSAValue, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        """mask ? x : y."""
        return self.b(SelectOp(mask, self.of(x), self.of(y)))

    def above(self, x: SSAValue, limit: float) -> SSAValue:
        """x > limit."""
        return self.b(CmpGtOp(x, self.of(limit)))

    def between(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """low < x < high."""
        return self.b(AndOp(self.above(x, low), self.b(CmpLtOp(x, self.of(high)))))

    def at_most(self, x: SSAValue, high: float) -> SSAValue:
        """min(x, high)."""
        return self.b(MinOp(x, self.of(high)))

    def clip(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """x between low and high."""
        return self.at_most(self.b(MaxOp(x, self.of(low))), high)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, x.dtype.type(0))


# inG = out (1 - out) outG
SigmoidOp = unary(
    "sigmoid",
    "1 / (1 + e^-x)",
    _sigmoid,
    lambda op, dy, b: (e := _E(b, dy)).mul(dy, op.result, e.sub(1, op.result)),
    lambda op, b: (e := _E(b, op.input)).div(1, e.add(1, b(ExpOp(e.mul(op.input, -1))))),
    base=FloatUnaryOp,
)
# inG = (1 - out^2) outG
TanhOp = unary(
    "tanh",
    "Hyperbolic tangent",
    np.tanh,
    lambda op, dy, b: (e := _E(b, dy)).mul(dy, e.sub(1, e.mul(op.result, op.result))),
    base=FloatUnaryOp,
)
LeakyReluOp = unary(
    "leaky_relu",
    "x >= 0 ? x : alpha x",
    lambda x, alpha: np.where(x >= 0, x, x * x.dtype.type(alpha)),
    lambda op, dy, b: (e := _E(b, dy)).where(e.above(op.input, 0), dy, e.mul(dy, op.alpha)),
    lambda op, b: (e := _E(b, op.input)).where(e.above(op.input, 0), op.input, e.mul(op.input, op.alpha)),
    base=FloatUnaryOp,
    alpha=float_prop(0.01),
)


def _prelu_gradient(op: Any, dy: SSAValue, b: Builder) -> tuple[SSAValue, SSAValue]:
    e = _E(b, dy)
    mask = e.above(op.lhs, 0)
    return e.where(mask, dy, e.mul(dy, op.rhs)), e.where(mask, 0, e.mul(dy, op.lhs))


PreluOp = binary(
    "prelu",
    "lhs >= 0 ? lhs : lhs * rhs, with a slope rhs that broadcasts",
    lambda x, slope: np.where(x >= 0, x, x * slope),
    _prelu_gradient,
)


class CeluBaseOp(FloatUnaryOp):
    """Checks the stretch."""

    alpha = float_prop(1.0)

    def check(self) -> None:
        if self.alpha == 0:
            raise VerifyException(f"{self.name}: alpha is 0")


def _elu_parts(op: Any) -> tuple[float, float, float]:
    """(gain above 0, gain below 0, stretch) of elu, selu and celu: x < 0 ? g (e^(x / s) - 1) : a x."""
    alpha = op.alpha
    if op.name == "glow.selu":
        return op.gamma, op.gamma * alpha, 1.0
    return 1.0, alpha, alpha if op.name == "glow.celu" else 1.0


def _elu(x: Array, above: float, below: float, stretch: float) -> Array:
    kind = x.dtype.type
    low: Array = kind(below) * np.expm1(np.minimum(x, 0) / kind(stretch))
    return np.where(x > 0, kind(above) * x, low)


def _elu_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    above, below, stretch = _elu_parts(op)
    e = _E(b, dy)
    slope = e.mul(b(ExpOp(e.mul(e.at_most(op.input, 0), 1 / stretch))), below / stretch)
    return e.mul(dy, e.where(e.above(op.input, 0), above, slope))


def _elu_decomposed(op: Any, b: Builder) -> SSAValue:
    above, below, stretch = _elu_parts(op)
    e = _E(b, op.input)
    low = e.mul(b(Expm1Op(e.mul(e.at_most(op.input, 0), 1 / stretch))), below)
    return e.where(e.above(op.input, 0), e.mul(op.input, above), low)


EluOp = unary(
    "elu",
    "x > 0 ? x : alpha (e^x - 1)",
    lambda x, alpha: _elu(x, 1, alpha, 1),
    _elu_gradient,
    _elu_decomposed,
    alpha=float_prop(1.0),
    base=FloatUnaryOp,
)
SeluOp = unary(
    "selu",
    "gamma (x > 0 ? x : alpha (e^x - 1))",
    lambda x, alpha, gamma: _elu(x, gamma, gamma * alpha, 1),
    _elu_gradient,
    _elu_decomposed,
    alpha=float_prop(_SELU_ALPHA),
    gamma=float_prop(_SELU_GAMMA),
    base=FloatUnaryOp,
)
CeluOp = unary(
    "celu",
    "x > 0 ? x : alpha (e^(x / alpha) - 1)",
    lambda x, alpha: _elu(x, 1, alpha, alpha),
    _elu_gradient,
    _elu_decomposed,
    base=CeluBaseOp,
)


def _hard_sigmoid_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    e = _E(b, dy)
    return e.where(e.between(op.result, 0, 1), e.mul(dy, op.alpha), 0)


def _hard_sigmoid_decomposed(op: Any, b: Builder) -> SSAValue:
    e = _E(b, op.input)
    return e.clip(e.add(e.mul(op.input, op.alpha), op.beta), 0, 1)


HardSigmoidOp = unary(
    "hard_sigmoid",
    "alpha x + beta, clipped to 0 .. 1",
    lambda x, alpha, beta: np.clip(x.dtype.type(alpha) * x + x.dtype.type(beta), 0, 1),
    _hard_sigmoid_gradient,
    _hard_sigmoid_decomposed,
    alpha=float_prop(0.2),
    beta=float_prop(0.5),
    base=FloatUnaryOp,
)


def _hard_swish_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # 0 below -3, 1 above 3, x / 3 + 1/2 between
    e = _E(b, dy)
    slope = e.add(e.mul(op.input, 1 / 3), 0.5)
    inner = e.where(e.between(op.input, -3, 3), slope, e.where(e.above(op.input, 0), 1, 0))
    return e.mul(dy, inner)


HardSwishOp = unary(
    "hard_swish",
    "x clip(x / 6 + 1/2, 0, 1)",
    lambda x: x * np.clip(x / x.dtype.type(6) + x.dtype.type(0.5), 0, 1),
    _hard_swish_gradient,
    lambda op, b: _E(b, op.input).mul(op.input, b(HardSigmoidOp(op.input, alpha=1 / 6, beta=0.5))),
    base=FloatUnaryOp,
)
_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


class GeluBaseOp(FloatUnaryOp):
    """Checks the approximation's name."""

    approximate = str_prop("none")

    def check(self) -> None:
        check_choice(self.name, "approximate", self.approximate, ("none", "tanh"))


def _gelu(x: Array, approximate: str) -> Array:
    kind = x.dtype.type
    if approximate == "tanh":
        inner = np.tanh(kind(_ROOT) * (x + kind(_CUBIC) * x * x * x))
    else:
        inner = erf(x * kind(math.sqrt(0.5)))
    return kind(0.5) * x * (1 + inner)


def _gelu_inner(x: SSAValue, approximate: str, e: _E) -> SSAValue:
    """erf(x / sqrt 2), or tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    if approximate == "none":
        return e.b(ErfOp(e.mul(x, math.sqrt(0.5))))
    return e.b(TanhOp(e.mul(x, e.add(e.mul(x, x, _CUBIC), 1), _ROOT)))


def _gelu_decomposed(op: Any, b: Builder) -> SSAValue:
    e = _E(b, op.input)
    return e.mul(op.input, e.add(_gelu_inner(op.input, op.approximate, e), 1), 0.5)


def _gelu_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # (1 + inner) / 2 + x inner' / 2
    e, x, kind = _E(b, dy), op.input, op.approximate
    inner = _gelu_inner(x, kind, e)
    if kind == "none":
        slope = e.mul(b(ExpOp(e.mul(x, x, -0.5))), 2 * math.sqrt(0.5 / math.pi))
    else:
        chain = e.mul(e.add(e.mul(x, x, 3 * _CUBIC), 1), _ROOT)
        slope = e.mul(e.sub(1, e.mul(inner, inner)), chain)
    return e.mul(dy, e.mul(e.add(e.add(inner, 1), e.mul(x, slope)), 0.5))


GeluOp = unary(
    "gelu",
    'x P(N < x), N normal; approximate is "none" (by erf) or "tanh"',
    _gelu,
    _gelu_gradient,
    _gelu_decomposed,
    base=GeluBaseOp,
)


def _swish_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # s + alpha x s (1 - s) = s + alpha out (1 - s)
    e, alpha = _E(b, dy), op.alpha
    s = b(SigmoidOp(e.mul(op.input, alpha)))
    return e.mul(dy, e.add(s, e.mul(op.result, e.sub(1, s), alpha)))


SwishOp = unary(
    "swish",
    "x sigmoid(alpha x); SiLU for alpha = 1",
    lambda x, alpha: x * _sigmoid(x.dtype.type(alpha) * x),
    _swish_gradient,
    lambda op, b: (e := _E(b, op.input)).mul(op.input, b(SigmoidOp(e.mul(op.input, op.alpha)))),
    alpha=float_prop(1.0),
    base=FloatUnaryOp,
)
SoftplusOp = unary(
    "softplus",
    "log(1 + e^x)",
    _softplus,
    lambda op, dy, b: _E(b, dy).mul(dy, b(SigmoidOp(op.input))),
    base=FloatUnaryOp,
)


def _softsign_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # 1 / (1 + |x|)^2
    e = _E(b, dy)
    low = e.add(b(AbsOp(op.input)), 1)
    return e.div(dy, e.mul(low, low))


SoftsignOp = unary(
    "softsign",
    "x / (1 + |x|)",
    lambda x: x / (1 + np.abs(x)),
    _softsign_gradient,
    lambda op, b: (e := _E(b, op.input)).div(op.input, e.add(b(AbsOp(op.input)), 1)),
    base=FloatUnaryOp,
)


def _mish_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # t + x (1 - t^2) sigmoid(x), t = tanh(softplus x)
    e = _E(b, dy)
    t = b(TanhOp(b(SoftplusOp(op.input))))
    slope = e.mul(op.input, e.sub(1, e.mul(t, t)), b(SigmoidOp(op.input)))
    return e.mul(dy, e.add(t, slope))


MishOp = unary(
    "mish",
    "x tanh(softplus x)",
    lambda x: x * np.tanh(_softplus(x)),
    _mish_gradient,
    lambda op, b: _E(b, op.input).mul(op.input, b(TanhOp(b(SoftplusOp(op.input))))),
    base=FloatUnaryOp,
)


def limits(kind: Tensor, low: float, high: float) -> tuple[float, float] | tuple[int, int]:
    """Clip limits as numbers of the element type; integer limits stay inside its range."""
    dtype = dtype_of(kind)
    if dtype.kind not in "iu":
        return low, high
    info = np.iinfo(dtype)
    return (
        int(info.min if low <= info.min else math.ceil(min(low, info.max))),
        int(info.max if high >= info.max else math.floor(max(high, info.min))),
    )


class ClipBaseOp(UnaryOp):
    """Checks the limits."""

    min = float_prop(-math.inf)
    max = float_prop(math.inf)

    def check(self) -> None:
        if math.isnan(self.min) or math.isnan(self.max):
            raise VerifyException(f"{self.name}: a limit is NaN")


def _clip(x: Array, min: float, max: float) -> Array:
    low, high = (min, max)
    if x.dtype.kind in "iu":
        from glow_dialects.core.types import tensor_of

        low, high = limits(tensor_of(x), min, max)
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def _clip_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    e = _E(b, dy)
    x = op.input
    inside = b(AndOp(b(CmpGeOp(x, e.of(op.min))), b(CmpGeOp(e.of(op.max), x))))
    return e.where(inside, dy, 0)


def _clip_decomposed(op: Any, b: Builder) -> SSAValue:
    e = _E(b, op.input)
    low, high = limits(typed(op.input), op.min, op.max)
    value = op.input
    if low > -math.inf:
        value = b(MaxOp(value, e.of(low)))
    return e.at_most(value, high) if high < math.inf else value


ClipOp = unary(
    "clip",
    "x, at least min and then at most max",
    _clip,
    _clip_gradient,
    _clip_decomposed,
    base=ClipBaseOp,
)
ThresholdedReluOp = unary(
    "thresholded_relu",
    "x > alpha ? x : 0",
    lambda x, alpha: np.where(x > x.dtype.type(alpha), x, x.dtype.type(0)),
    lambda op, dy, b: (e := _E(b, dy)).where(e.above(op.input, op.alpha), dy, 0),
    lambda op, b: (e := _E(b, op.input)).where(e.above(op.input, op.alpha), op.input, 0),
    base=FloatUnaryOp,
    alpha=float_prop(1.0),
)


class LogitBaseOp(FloatUnaryOp):
    """Checks the clamp."""

    eps = float_prop(-1.0)

    def check(self) -> None:
        if not self.eps < 0.5:
            raise VerifyException(f"{self.name}: eps is {self.eps}, must be below 0.5")


def _logit(x: Array, eps: float) -> Array:
    kind = x.dtype.type
    if eps >= 0:
        x = np.clip(x, kind(eps), kind(1) - kind(eps))
    return np.log(x / (1 - x))


def _logit_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # 1 / (x (1 - x)) inside the clamp
    e, eps = _E(b, dy), op.eps
    slope = e.div(dy, e.mul(op.input, e.sub(1, op.input)))
    return slope if eps < 0 else e.where(e.between(op.input, eps, 1 - eps), slope, 0)


def _logit_decomposed(op: Any, b: Builder) -> SSAValue:
    e, eps = _E(b, op.input), op.eps
    x = op.input if eps < 0 else e.clip(op.input, eps, 1 - eps)
    return b(LogOp(e.div(x, e.sub(1, x))))


LogitOp = unary(
    "logit",
    "log(x / (1 - x)), x clamped to eps .. 1 - eps where eps >= 0",
    _logit,
    _logit_gradient,
    _logit_decomposed,
    base=LogitBaseOp,
)

_X = random(3, 5, low=-4, high=4)
_ODD = np.array([np.nan, 80.0, -80.0, 200.0, -200.0, 0.0], np.float32)
SAMPLES: Sequence[Sample] = (
    *(
        Sample(op, (_X,))
        for op in (
            SigmoidOp, TanhOp, LeakyReluOp, EluOp, SeluOp, CeluOp, HardSigmoidOp, HardSwishOp,
            GeluOp, SwishOp, SoftplusOp, SoftsignOp, MishOp, ThresholdedReluOp,
        )
    ),
    Sample(LeakyReluOp, (_X,), {"alpha": 0.3}),
    Sample(PreluOp, (_X, random(5, low=0.1, high=0.5))),
    Sample(PreluOp, (random(2, 3, 4), random(3, 1, low=0.1, high=0.5))),
    Sample(EluOp, (_X,), {"alpha": 0.7}),
    Sample(CeluOp, (_X,), {"alpha": 1.7}),
    Sample(HardSigmoidOp, (_X,), {"alpha": 0.5, "beta": 0.4}),
    Sample(GeluOp, (_X,), {"approximate": "tanh"}),
    Sample(SwishOp, (_X,), {"alpha": 1.5}),
    Sample(ThresholdedReluOp, (_X,), {"alpha": 0.4}),
    Sample(ClipOp, (_X,), {"min": -1.0, "max": 2.5}),
    Sample(ClipOp, (_X,), {"min": 0.5}),
    Sample(ClipOp, (random(3, 4, dtype="int32", low=-9, high=9),), {"min": -3.0, "max": 4.0}, smooth=False),
    *(
        Sample(op, (_X.astype(kind),), smooth=False)
        for op in (SigmoidOp, TanhOp, GeluOp, LeakyReluOp, HardSwishOp, SoftplusOp)
        for kind in ("float64", "float16")
    ),
    *(
        Sample(op, (_ODD,), smooth=False)
        for op in (SigmoidOp, TanhOp, SoftplusOp, LeakyReluOp, EluOp, HardSigmoidOp, GeluOp)
    ),
    Sample(LogitOp, (random(3, 4, low=0.1, high=0.9),)),
    Sample(LogitOp, (random(3, 4, low=-0.2, high=1.2),), {"eps": 0.15}),
)  # fmt: skip
