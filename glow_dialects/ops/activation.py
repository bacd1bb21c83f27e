"""Activations other than relu, with gradients and decompositions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import bool_prop, check_choice, float_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, dtype_of, tensor_of, typed
from glow_dialects.ops.elementwise import BinaryOp, FloatUnaryOp, UnaryOp
from glow_dialects.ops.error_function import ErfcOp
from glow_dialects.ops.unary_math import ErfOp, Expm1Op

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def _between(x: Term, low: float, high: float) -> Term:
    """low < x < high."""
    return (x > low) & (x < high)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, x.dtype.type(0))


def _wide(x: Array) -> Array:
    """x as float64: products of a number and a small one below keep their bits."""
    return x.astype(np.float64)


_erfc = np.frompyfunc(math.erfc, 1, 1)


@graph_op
class SigmoidOp(FloatUnaryOp):
    """1 / (1 + e^-x)"""

    name = "glow.sigmoid"
    ONNX = "Sigmoid"
    TORCH = "sigmoid"
    STABLEHLO = "logistic"
    RANGE = (0, 1)

    def function(self, x: Array) -> Array:
        return _sigmoid(x)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy * y * (1 - y)

    def formula(self, x: Term) -> Term:
        return 1 / ((x * -1).exp() + 1)


@graph_op
class TanhOp(FloatUnaryOp):
    """Hyperbolic tangent"""

    name = "glow.tanh"
    ONNX = "Tanh"
    TORCH = "tanh"
    STABLEHLO = "tanh"
    NUMPY = np.tanh

    def derivative(self, x: Term, y: Term) -> Term:
        return 1 - y * y


@graph_op
class LeakyReluOp(FloatUnaryOp):
    """x >= 0 ? x : alpha x"""

    name = "glow.leaky_relu"
    ONNX = "LeakyRelu"
    TORCH = "leaky_relu"
    alpha = float_prop(0.01)

    def function(self, x: Array) -> Array:
        return np.where(x >= 0, x, x * x.dtype.type(self.alpha))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (x > 0).where(dy, dy * self.alpha)

    def formula(self, x: Term) -> Term:
        return (x > 0).where(x, x * self.alpha)


@graph_op
class PreluOp(BinaryOp):
    """lhs >= 0 ? lhs : lhs * rhs, with a slope rhs that broadcasts"""

    name = "glow.prelu"
    ONNX = "PRelu"
    TORCH = "prelu _prelu_kernel"

    def function(self, x: Array, y: Array) -> Array:
        return np.where(x >= 0, x, x * y)

    def cotangents(self, dy: Term, x: Term, y: Term) -> tuple[Term, Term]:
        above = x > 0
        return above.where(dy, dy * y), above.where(0, dy * x)


class EluFamilyOp(FloatUnaryOp):
    """x >= 0 ? above x : below (e^(x / stretch) - 1)."""

    MEANING = ("reference", "function", "parts")

    @property
    def parts(self) -> tuple[float, float, float]:
        """(above, below, stretch)."""
        raise NotImplementedError(self.name)

    def function(self, x: Array) -> Array:
        above, below, stretch = map(x.dtype.type, self.parts)
        return np.where(x >= 0, above * x, below * np.expm1(np.minimum(x, 0) / stretch))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        above, below, stretch = self.parts
        slope = (x.minimum(0) * (1 / stretch)).exp() * (below / stretch)
        return dy * (x > 0).where(above, slope)

    def formula(self, x: Term) -> Term:
        above, below, stretch = self.parts
        low = (x.minimum(0) * (1 / stretch)).apply(Expm1Op) * below
        return (x > 0).where(x * above, low)


@graph_op
class EluOp(EluFamilyOp):
    """x > 0 ? x : alpha (e^x - 1)"""

    name = "glow.elu"
    ONNX = "Elu"
    TORCH = "elu"
    alpha = float_prop(1.0)

    @property
    def parts(self) -> tuple[float, float, float]:
        return 1.0, self.alpha, 1.0


@graph_op
class SeluOp(EluFamilyOp):
    """gamma (x > 0 ? x : alpha (e^x - 1))"""

    name = "glow.selu"
    ONNX = "Selu"
    alpha = float_prop(_SELU_ALPHA)
    gamma = float_prop(_SELU_GAMMA)

    @property
    def parts(self) -> tuple[float, float, float]:
        return self.gamma, self.gamma * self.alpha, 1.0


@graph_op
class CeluOp(EluFamilyOp):
    """x > 0 ? x : alpha (e^(x / alpha) - 1)"""

    name = "glow.celu"
    ONNX = "Celu"
    alpha = float_prop(1.0)

    def check(self) -> None:
        if self.alpha == 0:
            raise VerifyException(f"{self.name}: alpha is 0; give another number")

    @property
    def parts(self) -> tuple[float, float, float]:
        return 1.0, self.alpha, self.alpha


@graph_op
class HardSigmoidOp(FloatUnaryOp):
    """alpha x + beta, clipped to 0 .. 1"""

    name = "glow.hard_sigmoid"
    ONNX = "HardSigmoid"
    TORCH = "hardsigmoid"
    alpha = float_prop(0.2)
    beta = float_prop(0.5)

    def function(self, x: Array) -> Array:
        return np.clip(x.dtype.type(self.alpha) * x + x.dtype.type(self.beta), 0, 1)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return _between(y, 0, 1).where(dy * self.alpha, 0)

    def formula(self, x: Term) -> Term:
        return (x * self.alpha + self.beta).maximum(0).minimum(1)


@graph_op
class HardSwishOp(FloatUnaryOp):
    """x clip(x + 3, 0, 6) / 6"""

    name = "glow.hard_swish"
    ONNX = "HardSwish"
    TORCH = "hardswish"

    def function(self, x: Array) -> Array:
        return x * (np.clip(x + x.dtype.type(3), 0, 6) / x.dtype.type(6))

    def derivative(self, x: Term, y: Term) -> Term:
        # 0 below -3, 1 above 3, x / 3 + 1/2 between
        slope = x * (1 / 3) + 0.5
        return _between(x, -3, 3).where(slope, (x > 0).where(x.of(1), 0))

    def formula(self, x: Term) -> Term:
        return x * ((x + 3).maximum(0).minimum(6) * (1 / 6))


_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


@graph_op
class GeluOp(FloatUnaryOp):
    """x P(N < x), N normal; approximate is "none" (by erf) or "tanh\""""

    name = "glow.gelu"
    ONNX = "Gelu"
    TORCH = "gelu"
    approximate = str_prop("none")

    def check(self) -> None:
        check_choice(self.name, "approximate", self.approximate, ("none", "tanh"))

    def function(self, x: Array) -> Array:
        wide = _wide(x)
        if self.approximate == "tanh":
            inside = _sigmoid(2 * _ROOT * (wide + _CUBIC * wide * wide * wide))
        else:
            inside = 0.5 * np.asarray(_erfc(wide * -math.sqrt(0.5)), np.float64)
        return (wide * inside).astype(x.dtype)

    def _inner(self, x: Term) -> Term:
        """erf(x / sqrt 2), or tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
        if self.approximate == "none":
            return (x * math.sqrt(0.5)).apply(ErfOp)
        return (x * (x * x * _CUBIC + 1) * _ROOT).apply(TanhOp)

    def derivative(self, x: Term, y: Term) -> Term:
        # (1 + inner) / 2 + x inner' / 2
        inner = self._inner(x)
        if self.approximate == "none":
            slope = (x * x * -0.5).exp() * (2 * math.sqrt(0.5 / math.pi))
        else:
            chain = (x * x * (3 * _CUBIC) + 1) * _ROOT
            slope = (1 - inner * inner) * chain
        return (inner + 1 + x * slope) * 0.5

    def formula(self, x: Term) -> Term:
        if self.approximate == "none":
            return x * 0.5 * (x * -math.sqrt(0.5)).apply(ErfcOp)
        return x * (x * (x * x * _CUBIC + 1) * (2 * _ROOT)).apply(SigmoidOp)


@graph_op
class SwishOp(FloatUnaryOp):
    """x sigmoid(alpha x); SiLU for alpha = 1"""

    name = "glow.swish"
    TORCH = "silu"
    alpha = float_prop(1.0)

    def function(self, x: Array) -> Array:
        wide = _wide(x)
        return (wide * _sigmoid(self.alpha * wide)).astype(x.dtype)

    def derivative(self, x: Term, y: Term) -> Term:
        # s + alpha x s (1 - s) = s + alpha out (1 - s)
        s = (x * self.alpha).apply(SigmoidOp)
        return s + y * (1 - s) * self.alpha

    def formula(self, x: Term) -> Term:
        return x * (x * self.alpha).apply(SigmoidOp)


@graph_op
class SoftplusOp(FloatUnaryOp):
    """log(1 + e^x)"""

    name = "glow.softplus"
    ONNX = "Softplus"
    TORCH = "softplus"

    def function(self, x: Array) -> Array:
        return _softplus(x)

    def derivative(self, x: Term, y: Term) -> Term:
        return x.apply(SigmoidOp)


@graph_op
class SoftsignOp(FloatUnaryOp):
    """x / (1 + |x|)"""

    name = "glow.softsign"
    ONNX = "Softsign"

    def function(self, x: Array) -> Array:
        return x / (1 + np.abs(x))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        # 1 / (1 + |x|)^2
        low = abs(x) + 1
        return dy / (low * low)

    def formula(self, x: Term) -> Term:
        return x / (abs(x) + 1)


@graph_op
class MishOp(FloatUnaryOp):
    """x tanh(softplus x)"""

    name = "glow.mish"
    ONNX = "Mish"
    TORCH = "mish"

    def function(self, x: Array) -> Array:
        wide = _wide(x)
        return (wide * np.tanh(_softplus(wide))).astype(x.dtype)

    def derivative(self, x: Term, y: Term) -> Term:
        # t + x (1 - t^2) sigmoid(x), t = tanh(softplus x)
        t = x.apply(SoftplusOp).apply(TanhOp)
        return t + x * (1 - t * t) * x.apply(SigmoidOp)

    def formula(self, x: Term) -> Term:
        return x * x.apply(SoftplusOp).apply(TanhOp)


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


@graph_op
class ClipOp(UnaryOp):
    """x, at least min and then at most max"""

    name = "glow.clip"
    ONNX = "Clip"
    TORCH = "clamp"
    CLAMPS = True
    min = float_prop(-math.inf)
    max = float_prop(math.inf)
    #: A limit itself passes no gradient, as hardtanh has it; clamp passes it.
    strict = bool_prop(False)
    ONLY_GRADIENT = ("strict",)

    def check(self) -> None:
        if math.isnan(self.min) or math.isnan(self.max):
            raise VerifyException(f"{self.name}: a limit is NaN; give a number, or leave it out")

    def clamp_limits(self) -> tuple[float, float]:
        return self.min, self.max

    def function(self, x: Array) -> Array:
        low, high = self.min, self.max
        if x.dtype.kind in "iu":
            low, high = limits(tensor_of(x), low, high)
        return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        inside = _between(x, self.min, self.max) if self.strict else (x >= self.min) & (x <= self.max)
        return inside.where(dy, 0)

    def formula(self, x: Term) -> Term:
        low, high = limits(typed(x.value), self.min, self.max)
        x = x.maximum(low) if low > -math.inf else x
        return x.minimum(high) if high < math.inf else x


@graph_op
class ThresholdedReluOp(FloatUnaryOp):
    """x > alpha ? x : 0"""

    name = "glow.thresholded_relu"
    ONNX = "ThresholdedRelu"
    alpha = float_prop(1.0)

    def function(self, x: Array) -> Array:
        return np.where(x > x.dtype.type(self.alpha), x, x.dtype.type(0))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (x > self.alpha).where(dy, 0)

    def formula(self, x: Term) -> Term:
        return (x > self.alpha).where(x, 0)


@graph_op
class LogitOp(FloatUnaryOp):
    """log(x / (1 - x)), x clamped to eps .. 1 - eps where eps >= 0"""

    name = "glow.logit"
    eps = float_prop(-1.0)

    def check(self) -> None:
        if not self.eps < 0.5:
            raise VerifyException(f"{self.name}: eps is {self.eps}, must be below 0.5")

    def function(self, x: Array) -> Array:
        kind = x.dtype.type
        if self.eps >= 0:
            x = np.clip(x, kind(self.eps), kind(1) - kind(self.eps))
        near = np.log1p((2 * x - 1) / (1 - x))
        return np.where((x > 0.25) & (x < 0.75), near, np.log(x / (1 - x)))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        # 1 / (x (1 - x)) inside the clamp
        slope = dy / (x * (1 - x))
        return slope if self.eps < 0 else _between(x, self.eps, 1 - self.eps).where(slope, 0)

    def formula(self, x: Term) -> Term:
        x = x if self.eps < 0 else x.maximum(self.eps).minimum(1 - self.eps)
        return (x / (1 - x)).log()


_X = random(3, 5, low=-4, high=4)
_ODD = np.array(
    [np.nan, 80.0, -80.0, 200.0, -200.0, 0.0, -0.0, np.inf, -np.inf, 3e38, -3e38, -6.0, -90.0, 1e-40],
    np.float32,
)
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
        for op in (
            SigmoidOp, TanhOp, SoftplusOp, LeakyReluOp, EluOp, SeluOp, CeluOp, HardSigmoidOp, HardSwishOp,
            GeluOp, SwishOp, MishOp, SoftsignOp,
        )
    ),
    Sample(LogitOp, (random(3, 4, low=0.1, high=0.9),)),
    Sample(LogitOp, (random(3, 4, low=-0.2, high=1.2),), {"eps": 0.15}),
)  # fmt: skip
