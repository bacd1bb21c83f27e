"""Element-wise operators and reductions of the builder."""

from __future__ import annotations

from numpy.typing import DTypeLike

from glow_dialects.core.types import element_type, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.builder.core import Binary, Layer, Like, Operators, Unary, Value


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

    leaky_relu: Layer
    elu: Layer
    selu: Layer
    celu: Layer
    hard_sigmoid: Layer
    gelu: Layer
    swish: Layer
    clip: Layer
    thresholded_relu: Layer
    logit: Layer

    reduce_sum: Layer
    reduce_mean: Layer
    reduce_max: Layer
    reduce_min: Layer
    reduce_prod: Layer
    reduce_sum_square: Layer
    reduce_l1: Layer
    reduce_l2: Layer
    reduce_log_sum: Layer
    reduce_log_sum_exp: Layer
    arg_max: Layer
    arg_min: Layer
    cumsum: Layer

    def select(self, condition: Like, x: Like, y: Like) -> Value:
        """x where the condition holds, else y."""
        left = self.value(x, y if isinstance(y, Value) else None)
        return self.one(SelectOp, condition, left, self.value(y, left))

    def cast(self, x: Like, dtype: DTypeLike) -> Value:
        """x with another element type."""
        value = self.value(x)
        kind = tensor(value.shape, element_type(dtype))
        return self.one(CastOp, value, results=kind)
