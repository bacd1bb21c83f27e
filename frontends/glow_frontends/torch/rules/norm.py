"""Rules of normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.group_norm import GroupNormOp, InstanceNormOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.unary_math import RsqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape, uniform
from glow_frontends.torch.node import Decomposed, Node
from glow_frontends.torch.rules.reduce import spread

Rule = Callable[..., Any]


def _statistics(g: Emitter, n: Node, x: Value, axes: Sequence[int], eps: float) -> list[Value | None]:
    """The mean and the inverse deviation over axes, where they are read."""
    if not (n.wants(1) or n.wants(2)):
        return [None, None]
    variance, mean = spread(g, x, list(axes), 0, True)
    return [mean, g(RsqrtOp, g(AddOp, variance, g.like(eps, x)))]


def layer_norm(
    g: Emitter, n: Node, x: Value, inner: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> list[Value | None]:
    """Zero mean and unit variance over the last axes, with the statistics."""
    kind, axis = dtype_of_value(x), rank(x) - len(inner)
    parameters = [None if p is None else cast_to(g, p, kind) for p in (weight, bias)]
    y = g(LayerNormOp, x, *parameters, axis=axis, epsilon=eps)
    return [y, *_statistics(g, n, x, range(axis, rank(x)), eps)]


def rms_norm(g: Emitter, n: Node, x: Value, inner: Sequence[int], weight: Any = None, eps: Any = None) -> Any:
    """Unit root mean square over the last axes, of some forms with its inverse."""
    kind, axis = dtype_of_value(x), rank(x) - len(inner)
    eps = float(np.finfo(np.float32).eps if eps is None and kind.itemsize < 8 else eps or 0.0)
    weight = None if weight is None else cast_to(g, weight, kind)
    y = g(RmsNormOp, x, weight, axis=axis, epsilon=eps)
    if not isinstance(n.meta, list | tuple):
        return y
    if not n.wants(1):
        return [y, None]
    squares = g(ReduceMeanOp, g(MulOp, x, x), axes=tuple(range(axis, rank(x))), keepdims=True)
    return [y, g(RsqrtOp, g(AddOp, squares, g.like(eps, x)))]


def _for_channels(g: Emitter, x: Value, parameter: Value | None, number: float) -> Value:
    """A parameter of channels, or the number that changes nothing."""
    kind = dtype_of_value(x)
    if parameter is None:
        return uniform(np.array(number).astype(kind), (shape(x)[1],))
    return cast_to(g, parameter, kind)


def batch_norm_inference(
    g: Emitter,
    n: Node,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    eps: float,
) -> list[Value]:
    """Normalisation by running statistics."""
    del momentum
    numbers = zip((weight, bias, mean, variance), (1, 0, 0, 1), strict=True)
    y = g(BatchNormOp, x, *[_for_channels(g, x, p, v) for p, v in numbers], epsilon=eps)
    nothing = np.zeros((0,), np.float32)
    return [y, nothing, nothing]


def native_batch_norm(
    g: Emitter,
    n: Node,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value]:
    """The same, where it does not train."""
    if training and mean is not None:
        raise RuleError(
            "running statistics that change in place are not supported; export the module that contains them"
        )
    if training or mean is None or variance is None:
        raise Decomposed("batch norm by the statistics of the batch")
    return batch_norm_inference(g, n, x, weight, bias, mean, variance, momentum, eps)


def batch_norm_of_batch(g: Emitter, n: Node, *operands: Any) -> list[Value]:
    """Of a layer that keeps no statistics: PyTorch's decomposition has them."""
    raise Decomposed("batch norm by the statistics of the batch")


def group_norm(
    g: Emitter,
    n: Node,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> list[Value | None]:
    """Normalisation of groups of channels, with the statistics."""
    del pixels
    parameters = [_for_channels(g, x, p, v) for p, v in ((weight, 1), (bias, 0))]
    wide = x if rank(x) > 2 else g.reshape(x, (*shape(x), 1))
    y = g.reshape(g(GroupNormOp, wide, *parameters, groups=groups, epsilon=eps), shape(x))
    if not (n.wants(1) or n.wants(2)):
        return [y, None, None]
    rows = g.reshape(x, (batch, groups, prod(shape(x)[1:]) // groups))
    return [
        y,
        *(None if s is None else g.reshape(s, (batch, groups)) for s in _statistics(g, n, rows, [2], eps)),
    ]


def instance_norm(
    g: Emitter,
    n: Node,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    use_input_stats: bool,
    *more: Any,
) -> Value:
    """Normalisation of each channel of each example."""
    if not use_input_stats or mean is not None or rank(x) < 3:
        raise Decomposed("instance norm by running statistics")
    parameters = [_for_channels(g, x, p, v) for p, v in ((weight, 1), (bias, 0))]
    return g(InstanceNormOp, x, *parameters, epsilon=more[1])


RULES: dict[str, Rule] = {
    "_fused_rms_norm": rms_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "_native_batch_norm_legit.no_stats": batch_norm_of_batch,
    "_native_batch_norm_legit_no_training": batch_norm_inference,
    "instance_norm": instance_norm,
    "native_batch_norm": native_batch_norm,
    "native_group_norm": group_norm,
    "native_layer_norm": layer_norm,
    "rms_norm": rms_norm,
}
