"""Mean, variance and division that are layer_norm, rms_norm or instance_norm.

d = x - mean(x);  y = d / sqrt(mean(d * d) + epsilon) * scale + bias
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, shape_of, tensor, typed
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.group_norm import InstanceNormOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.reduce import ReduceMeanOp, reduced_shape
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.unary_math import ReciprocalOp, RsqrtOp, SqrtOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, producer
from glow_passes.graph.match import beside_scalar, kept_reduction, rank, without_reshape

N = TypeVar("N", LayerNormOp, RmsNormOp)


def _deviation(value: SSAValue, inverse: bool, r: Rewriter) -> tuple[SSAValue, float] | None:
    """(v, epsilon) where `value` is sqrt(v + epsilon), or 1 over it, by a reshape or not."""
    value = without_reshape(value)
    if inverse:
        rsqrt = producer(value, RsqrtOp)
        reciprocal = producer(value, ReciprocalOp)
        if rsqrt is not None:
            return beside_scalar(rsqrt.input, AddOp, r)
        if reciprocal is None:
            return None
        value = reciprocal.input
    root = producer(value, SqrtOp)
    return None if root is None else beside_scalar(root.input, AddOp, r)


def _mean_of_square(value: SSAValue) -> tuple[SSAValue, tuple[int, ...]] | None:
    """(d, axes) where `value` is the mean of d * d over axes."""
    mean = producer(value, ReduceMeanOp)
    if mean is None:
        return None
    square = producer(mean.input, MulOp)
    if square is None or square.lhs is not square.rhs:
        return None
    return square.lhs, tuple(sorted(mean.axes))


def normalized(op: DivOp | MulOp, r: Rewriter) -> SSAValue | None:
    """The division by the deviation -> layer_norm or rms_norm over trailing axes, instance_norm."""
    pairs = [(op.lhs, op.rhs)] if isinstance(op, DivOp) else [(op.lhs, op.rhs), (op.rhs, op.lhs)]
    for d, spread in pairs:
        deviation = _deviation(spread, isinstance(op, MulOp), r)
        square = None if deviation is None else _mean_of_square(deviation[0])
        if deviation is None or square is None or square[0] is not d:
            continue
        if shape_of(spread) != reduced_shape(shape_of(d), square[1], True):
            continue
        return _norm_of(d, square[1], deviation[1], r)
    return None


def _norm_of(d: SSAValue, axes: tuple[int, ...], epsilon: float, r: Rewriter) -> SSAValue | None:
    trailing = axes == tuple(range(axes[0], rank(d))) if axes else False
    x = _centred(d, axes)
    if x is None:
        return r(RmsNormOp(d, axis=axes[0], epsilon=epsilon)) if trailing else None
    if not trailing:
        return None
    if axes[0] == 2 and rank(x) >= 4:
        vector = tensor(shape_of(x)[1:2], typed(x).element_type)
        return r(InstanceNormOp(x, r.splat(1, vector), r.splat(0, vector), epsilon=epsilon))
    return r(LayerNormOp(x, axis=axes[0], epsilon=epsilon))


def _centred(d: SSAValue, axes: tuple[int, ...]) -> SSAValue | None:
    """x where d is x - mean(x) over the same axes."""
    difference = producer(d, SubOp)
    if difference is None:
        return None
    mean = kept_reduction(difference.rhs, ReduceMeanOp)
    if mean is None or mean.input is not difference.lhs:
        return None
    return difference.lhs if tuple(sorted(mean.axes)) == axes else None


def _parameter(value: SSAValue, shape: tuple[int, ...], r: Rewriter) -> SSAValue | None:
    """`value` as a tensor of exactly the normalised shape, where leading ones are all it lacks."""
    mine = shape_of(value)
    if mine == shape:
        return value
    extra = len(mine) - len(shape)
    if mine[extra:] != shape or any(n != 1 for n in mine[:extra]):
        return None
    return r(ReshapeOp.to(value, shape))


def _norm(op: AddOp | MulOp, kind: type[N]) -> tuple[N, SSAValue] | None:
    """(the normalisation, the operand beside it) of a product or sum, its only reader."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner = producer(value, kind)
        if inner is not None and is_used_once(value) and value.type == op.result.type:
            return (inner, other) if inner.predicate is None else None
    return None


def scale_of_norm(op: MulOp, r: Rewriter) -> SSAValue | None:
    """layer_norm(x) * s -> layer_norm(x, s), s of the shape of the normalised axes."""
    parts = _norm(op, LayerNormOp) or _norm(op, RmsNormOp)
    if parts is None:
        return None
    norm, other = parts
    if norm.operands[1:]:
        return _scaled_norm(norm, other, r)
    axis = norm.axis
    scale = _parameter(other, shape_of(norm.input)[axis:], r)
    if scale is None:
        return None
    return r(type(norm)(norm.input, scale, axis=axis, epsilon=norm.epsilon))


def bias_of_norm(op: AddOp, r: Rewriter) -> SSAValue | None:
    """layer_norm(x, s) + b -> layer_norm(x, s, b), b of the shape of the normalised axes."""
    parts = _norm(op, LayerNormOp)
    if parts is None:
        return None
    norm, other = parts
    axis, bias = norm.axis, norm.bias
    if bias is not None:
        known = _constants((bias, other), norm, r)
        bias = None if known is None else r.weight(known[0] + known[1], "bias")
    else:
        bias = _parameter(other, shape_of(norm.input)[axis:], r)
    if bias is None:
        return None
    return r(LayerNormOp(norm.input, norm.scale, bias, axis=axis, epsilon=norm.epsilon))


def _scaled_norm(norm: LayerNormOp | RmsNormOp, factor: SSAValue, r: Rewriter) -> SSAValue | None:
    """layer_norm(x, s, b) * f -> layer_norm(x, s * f, b * f), all known when compiling."""
    groups = [name for name, _ in norm.operand_groups() if name != "input" and norm.operand_group(name)]
    known = _constants((*norm.operands[1:], factor), norm, r)
    if known is None or groups[0] != "scale":
        return None
    *parameters, times = known
    scaled = [r.weight(p * times, name) for p, name in zip(parameters, groups, strict=True)]
    return r(type(norm)(norm.input, *scaled, axis=norm.axis, epsilon=norm.epsilon))


def _constants(values: Sequence[SSAValue], norm: Any, r: Rewriter) -> list[Array] | None:
    """Values as parameters of a normalisation; None where one is not known, or of another type or shape."""
    shape = shape_of(norm.input)[norm.axis :]
    known: list[Array] = []
    for value in values:
        array = r.array(value) if typed(value).element_type == typed(norm.input).element_type else None
        if array is None:
            return None
        all_axes = (1,) * len(shape) + array.shape
        more, own = all_axes[: array.ndim], all_axes[array.ndim :]
        if any(n != 1 for n in more):
            return None
        known.append(np.broadcast_to(array.reshape(own), shape))
    return known


#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (
    Pattern((DivOp, MulOp), normalized),
    Pattern((MulOp,), scale_of_norm),
    Pattern((AddOp,), bias_of_norm),
)
