"""Element-wise operators and reductions of the builder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from glow_dialects.core.types import element_type, tensor
from glow_dialects.ops import activation as act
from glow_dialects.ops import reduce as red
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.builder.core import Binary, Like, Operators, Unary, Value, axis_of


class Math(Operators):
    """Arithmetic with NumPy broadcasting, comparisons, logic, activations, reductions."""

    add: Binary
    sub: Binary
    mul: Binary
    div: Binary
    max: Binary
    min: Binary
    pow: Binary
    mod: Binary
    fmod: Binary
    floor_div: Binary

    cmp_eq: Binary
    cmp_ne: Binary
    cmp_lt: Binary
    cmp_le: Binary
    cmp_gt: Binary
    cmp_ge: Binary
    logical_and: Binary
    logical_or: Binary
    logical_xor: Binary
    logical_not: Unary
    bitwise_and: Binary
    bitwise_or: Binary
    bitwise_xor: Binary
    bitwise_not: Unary
    shift_left: Binary
    shift_right: Binary
    is_nan: Unary
    is_inf: Unary

    neg: Unary
    abs: Unary
    floor: Unary
    ceil: Unary
    round: Unary
    sign: Unary
    trunc: Unary
    sqrt: Unary
    rsqrt: Unary
    reciprocal: Unary
    sin: Unary
    cos: Unary
    tan: Unary
    asin: Unary
    acos: Unary
    atan: Unary
    sinh: Unary
    cosh: Unary
    asinh: Unary
    acosh: Unary
    atanh: Unary
    exp: Unary
    log: Unary
    log1p: Unary
    expm1: Unary
    erf: Unary

    relu: Unary
    prelu: Binary
    sigmoid: Unary
    tanh: Unary
    hard_swish: Unary
    softplus: Unary
    softsign: Unary
    mish: Unary

    def leaky_relu(self, x: Like, alpha: float = 0.01) -> Value:
        """x where positive, else alpha x."""
        return self.one(act.LeakyReluOp, x, alpha=float(alpha))

    def elu(self, x: Like, alpha: float = 1.0) -> Value:
        """x where positive, else alpha (exp(x) - 1)."""
        return self.one(act.EluOp, x, alpha=float(alpha))

    def selu(self, x: Like) -> Value:
        """The self-normalising ELU."""
        return self.one(act.SeluOp, x)

    def celu(self, x: Like, alpha: float = 1.0) -> Value:
        """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
        return self.one(act.CeluOp, x, alpha=float(alpha))

    def hard_sigmoid(self, x: Like, alpha: float = 0.2, beta: float = 0.5) -> Value:
        """clip(alpha x + beta, 0, 1)."""
        return self.one(act.HardSigmoidOp, x, alpha=float(alpha), beta=float(beta))

    def gelu(self, x: Like, approximate: str = "none") -> Value:
        """x Phi(x); `approximate` is "none" or "tanh"."""
        return self.one(act.GeluOp, x, approximate=approximate)

    def swish(self, x: Like, alpha: float = 1.0) -> Value:
        """x sigmoid(alpha x)."""
        return self.one(act.SwishOp, x, alpha=float(alpha))

    def clip(self, x: Like, min: float = -np.inf, max: float = np.inf) -> Value:
        """x within [min, max]."""
        return self.one(act.ClipOp, x, min=float(min), max=float(max))

    def thresholded_relu(self, x: Like, alpha: float = 1.0) -> Value:
        """x where above alpha, else 0."""
        return self.one(act.ThresholdedReluOp, x, alpha=float(alpha))

    def logit(self, x: Like, eps: float = -1.0) -> Value:
        """log(x / (1 - x)); with `eps` >= 0 x is first kept within [eps, 1 - eps]."""
        return self.one(act.LogitOp, x, eps=float(eps))

    def select(self, condition: Like, x: Like, y: Like) -> Value:
        """x where the condition holds, else y."""
        left = self.value(x, y if isinstance(y, Value) else None)
        return self.one(SelectOp, condition, left, self.value(y, left))

    def cast(self, x: Like, dtype: DTypeLike) -> Value:
        """x with another element type."""
        value = self.value(x)
        kind = tensor(value.shape, element_type(dtype))
        return self.one(CastOp, value, results=kind)

    # --- reductions ---------------------------------------------------------------------------
    def _reduce(self, kind: type, x: Like, axes: Sequence[int] | int | None, keepdims: bool) -> Value:
        value = self.value(x)
        listed = range(len(value.shape)) if axes is None else [axes] if isinstance(axes, int) else axes
        wanted = tuple(sorted(axis_of(value, a) for a in listed))
        return self.one(kind, value, axes=wanted, keepdims=keepdims)

    def reduce_sum(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The sum over `axes` (all of them by default)."""
        return self._reduce(red.ReduceSumOp, x, axes, keepdims)

    def reduce_mean(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The mean over `axes` (all of them by default)."""
        return self._reduce(red.ReduceMeanOp, x, axes, keepdims)

    def reduce_max(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The largest over `axes` (all of them by default)."""
        return self._reduce(red.ReduceMaxOp, x, axes, keepdims)

    def reduce_min(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The smallest over `axes` (all of them by default)."""
        return self._reduce(red.ReduceMinOp, x, axes, keepdims)

    def reduce_prod(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The product over `axes` (all of them by default)."""
        return self._reduce(red.ReduceProdOp, x, axes, keepdims)

    def reduce_sum_square(
        self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False
    ) -> Value:
        """The sum of squares over `axes` (all of them by default)."""
        return self._reduce(red.ReduceSumSquareOp, x, axes, keepdims)

    def reduce_l1(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The sum of absolute values over `axes` (all of them by default)."""
        return self._reduce(red.ReduceL1Op, x, axes, keepdims)

    def reduce_l2(self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False) -> Value:
        """The Euclidean norm over `axes` (all of them by default)."""
        return self._reduce(red.ReduceL2Op, x, axes, keepdims)

    def reduce_log_sum(
        self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False
    ) -> Value:
        """The logarithm of the sum over `axes` (all of them by default)."""
        return self._reduce(red.ReduceLogSumOp, x, axes, keepdims)

    def reduce_log_sum_exp(
        self, x: Like, axes: Sequence[int] | int | None = None, keepdims: bool = False
    ) -> Value:
        """The logarithm of the sum of exponentials over `axes` (all of them by default)."""
        return self._reduce(red.ReduceLogSumExpOp, x, axes, keepdims)

    def arg_max(self, x: Like, axis: int, keepdims: bool = False) -> Value:
        """Where the first largest element of an axis is (i64)."""
        return self._arg(ArgMaxOp, x, axis, keepdims)

    def arg_min(self, x: Like, axis: int, keepdims: bool = False) -> Value:
        """Where the first smallest element of an axis is (i64)."""
        return self._arg(ArgMinOp, x, axis, keepdims)

    def _arg(self, kind: type, x: Like, axis: int, keepdims: bool) -> Value:
        value = self.value(x)
        return self.one(kind, value, axis=axis_of(value, axis), keepdims=keepdims)

    def cumsum(self, x: Like, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        """Running sums along an axis."""
        value = self.value(x)
        where = axis_of(value, axis)
        return self.one(CumsumOp, value, axis=where, exclusive=exclusive, reverse=reverse)
