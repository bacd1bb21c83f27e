"""Each Caffe2 operator in the builder's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.builder import Value
from glow_frontends.caffe2.fills import DTYPES
from glow_frontends.caffe2.node import Blob, Node
from glow_frontends.caffe2.sparse import INTEGER_INPUTS, SPARSE
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.errors import RuleError

Rule = Callable[[Node], "Blob | Sequence[Blob]"]


def _identity(n: Node) -> Blob:
    return n.blob(0)


def _unary(name: str) -> Rule:
    return lambda n: getattr(n.graph, name)(n[0])


# --- windows ---------------------------------------------------------------------------------
def _pair(n: Node, one: str, many: str, default: int) -> tuple[int, int]:
    if n.has(many):
        values = n.integers(many)
        return (values[0], values[-1])
    single = n.integer(one, default)
    return (n.integer(f"{one}_h", single), n.integer(f"{one}_w", single))


def _pads(n: Node, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Begins, then ends; legacy padding 3 rounds the number of windows up."""
    legacy = n.integer("legacy_pad")
    if legacy not in (0, 3):
        raise RuleError(f"legacy_pad {legacy}")
    if n.has("pads"):
        pads = n.integers("pads")
    else:
        pad = n.integer("pad")
        pads = tuple(n.integer(f"pad_{side}", pad) for side in "tlbr")
    if legacy == 0:
        return pads
    ends = list(pads[2:])
    for axis in range(2):
        size = sizes[axis] + pads[axis] + pads[axis]
        count = -(-(size - kernel[axis]) // strides[axis]) + 1
        if pads[axis] and (count - 1) * strides[axis] >= sizes[axis] + pads[axis]:
            count -= 1
        ends[axis] = max(0, (count - 1) * strides[axis] + kernel[axis] - sizes[axis] - pads[axis])
    return (*pads[:2], *ends)


def _spatial(n: Node) -> tuple[int, int]:
    shape = n[0].shape
    if len(shape) != 4:
        raise RuleError(f"an input of rank {len(shape)}, expected 4")
    return (shape[1], shape[2]) if n.layout() == "NHWC" else (shape[2], shape[3])


def _window(n: Node) -> dict[str, Any]:
    kernel = _pair(n, "kernel", "kernels", 0)
    strides = _pair(n, "stride", "strides", 1)
    return {"strides": strides, "pads": _pads(n, _spatial(n), kernel, strides)}


def _conv(n: Node) -> Value:
    bias = n[2] if len(n) > 2 else None
    conv = n.graph.conv(
        n[0],
        n[1],
        bias,
        dilations=_pair(n, "dilation", "dilations", 1),
        group=n.integer("group", 1),
        layout=n.layout(),
        **_window(n),
    )
    return n.graph.relu(conv) if n.op.type == "ConvRelu" else conv


def _conv_transpose(n: Node) -> Value:
    bias = n[2] if len(n) > 2 else None
    adjust = n.integer("adj")
    more = (n.integer("adj_h", adjust), n.integer("adj_w", adjust))
    group = n.integer("group", 1)
    return n.graph.conv_transpose(n[0], n[1], bias, output_pads=more, group=group, **_window(n))


def _pool(n: Node) -> Value:
    kernel = _spatial(n) if n.integer("global_pooling") else _pair(n, "kernel", "kernels", 0)
    window: dict[str, Any] = {} if n.integer("global_pooling") else _window(n)
    if n.op.type == "MaxPool":
        return n.graph.max_pool(n[0], kernel, layout=n.layout(), **window)
    counted = bool(n.integer("count_include_pad"))
    return n.graph.avg_pool(n[0], kernel, count_include_pad=counted, layout=n.layout(), **window)


# --- products and normalisation ----------------------------------------------------------------
def _fully_connected(n: Node) -> Value:
    x = n[0]
    axis = axis_of(n.integer("axis", 1), len(x.shape) + 1)
    weights = n.blob(1)
    if n.op.type == "FC":
        if isinstance(weights, Value):
            turned: Blob = n.graph.transpose(weights)
        else:
            turned = np.ascontiguousarray(weights.reshape(weights.shape[0], -1).transpose())
    else:
        turned = weights
    rows = n.graph.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    product = n.graph.fully_connected(rows, turned, n[2])
    return n.graph.reshape(product, (*x.shape[:axis], product.shape[1]))


def _matmul(n: Node) -> Value:
    sides: list[Value] = []
    for index, flag in ((0, "trans_a"), (1, "trans_b")):
        value = n[index]
        rank = len(value.shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        sides.append(n.graph.transpose(value, order) if n.integer(flag) else value)
    return n.graph.batch_matmul(*sides)


def _spatial_bn(n: Node) -> Value:
    if not n.integer("is_test"):
        raise RuleError("SpatialBN in training mode")
    parameters = [n[i] for i in range(1, 5)]
    return n.graph.batch_norm(n[0], *parameters, epsilon=n.number("epsilon", 1e-5), layout=n.layout())


def _lrn(n: Node) -> Value:
    size, bias = n.integer("size"), n.number("bias", 1.0)
    return n.graph.lrn(n[0], size, n.number("alpha"), n.number("beta"), bias)


def _layer_norm(n: Node) -> Value:
    scale, bias = (n[1], n[2]) if len(n) > 2 else (None, None)
    return n.graph.layer_norm(n[0], scale, bias, n.integer("axis", 1), n.number("epsilon", 1e-5))


def _softmax(n: Node) -> Value:
    x = n[0]
    axis = axis_of(n.integer("axis", 1), len(x.shape))
    flat = n.graph.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return n.graph.reshape(n.graph.softmax(flat, 1), x.shape)


# --- arithmetic ----------------------------------------------------------------------------------
def _binary(name: str) -> Rule:
    def rule(n: Node) -> Value:
        left, right = n[0], n[1]
        if n.integer("broadcast") and n.has("axis") and right.shape:
            axis = axis_of(n.integer("axis"), len(left.shape))
            tail = len(left.shape) - axis - len(right.shape)
            right = n.graph.reshape(right, right.shape + (1,) * max(0, tail))
        return getattr(n.graph, name)(left, right)

    return rule


def _sum(n: Node) -> Value:
    total = n[0]
    for value in n.values()[1:]:
        total = total + value
    return total


def _mean(n: Node) -> Value:
    return _sum(n) * (1.0 / len(n))


def _clip(n: Node) -> Value:
    return n.graph.clip(n[0], n.number("min", -np.inf), n.number("max", np.inf))


def _gelu(n: Node) -> Value:
    return n.graph.gelu(n[0], "tanh" if n.integer("fast_gelu") else "none")


def _elementwise_linear(n: Node) -> Value:
    return n[0] * n[1] + n[2]


def _cast(n: Node) -> Value:
    dtype = DTYPES.get(n.integer("to", 1))
    if dtype is None:
        raise RuleError(f"element type {n.integer('to')}")
    return n.graph.cast(n[0], dtype)


# --- shapes --------------------------------------------------------------------------------------
def _concat(n: Node) -> Sequence[Blob]:
    parts = n.values()
    if n.integer("add_axis"):
        axis = axis_of(n.integer("axis", 1), len(parts[0].shape) + 1)
        parts = [n.graph.reshape(p, (*p.shape[:axis], 1, *p.shape[axis:])) for p in parts]
    default = len(parts[0].shape) - 1 if n.layout() == "NHWC" else 1
    axis = axis_of(n.integer("axis", default), len(parts[0].shape))
    return [n.graph.concat(parts, axis), np.array([p.shape[axis] for p in parts], np.int32)]


def _split(n: Node) -> list[Value]:
    x = n[0]
    axis = axis_of(n.integer("axis", 3 if n.layout() == "NHWC" else 1), len(x.shape))
    sizes = n.integers("split")
    if len(n) > 1:
        sizes = tuple(int(s) for s in n.array(1, "the sizes"))
    sizes = sizes or (x.shape[axis] // n.outputs,) * n.outputs
    if sum(sizes) != x.shape[axis]:
        raise RuleError(f"sizes {list(sizes)} do not add up to {x.shape[axis]}")
    parts: list[Value] = []
    start = 0
    for size in sizes:
        parts.append(_cut(n, x, axis, start, start + size))
        start += size
    return parts


def _cut(n: Node, x: Value, axis: int, start: int, end: int) -> Value:
    starts, ends = [0] * len(x.shape), list(x.shape)
    starts[axis], ends[axis] = start, end
    return n.graph.slice(x, starts, ends)


def _slice(n: Node) -> Value:
    x = n[0]
    starts, ends = n.integers("starts"), n.integers("ends")
    if len(n) > 2:
        starts, ends = (tuple(int(v) for v in n.array(i, "a bound")) for i in (1, 2))
    if len(starts) != len(x.shape) or len(ends) != len(x.shape):
        raise RuleError(f"{len(starts)} bounds for rank {len(x.shape)}")
    first = [s + d + 1 if s < 0 else s for s, d in zip(starts, x.shape, strict=True)]
    last = [e + d + 1 if e < 0 else min(e, d) for e, d in zip(ends, x.shape, strict=True)]
    return n.graph.slice(x, first, last)


def _reshape(n: Node) -> Sequence[Blob]:
    x = n[0]
    wanted = n.integers("shape") or tuple(int(d) for d in n.array(1, "the shape"))
    dims = [x.shape[i] if d == 0 and i < len(x.shape) else d for i, d in enumerate(wanted)]
    return [n.graph.reshape(x, dims), np.array(x.shape, np.int64)]


def _flatten(n: Node) -> Value:
    x = n[0]
    axis = 0 if n.op.type == "FlattenToVec" else n.integer("axis", 1)
    if n.op.type == "FlattenToVec":
        return n.graph.reshape(x, (prod(x.shape),))
    return n.graph.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _squeeze(n: Node) -> Value:
    dims = n.integers("dims")
    if any(n[0].shape[d] != 1 for d in dims):
        raise RuleError(f"dimensions {list(dims)} of {n[0].shape} are not all 1")
    return n.graph.reshape(n[0], [d for i, d in enumerate(n[0].shape) if i not in dims])


def _expand_dims(n: Node) -> Value:
    shape = list(n[0].shape)
    for dim in sorted(n.integers("dims")):
        shape.insert(dim, 1)
    return n.graph.reshape(n[0], shape)


def _transpose(n: Node) -> Value:
    rank = len(n[0].shape)
    return n.graph.transpose(n[0], n.integers("axes") or tuple(reversed(range(rank))))


def _order(*order: int) -> Rule:
    return lambda n: n.graph.transpose(n[0], order)


def _channel_shuffle(n: Node) -> Value:
    x, group = n[0], n.integer("group", 1)
    batch, channels, *rest = x.shape
    wide = n.graph.reshape(x, (batch, group, channels // group, *rest))
    return n.graph.reshape(
        n.graph.transpose(wide, (0, 2, 1, *range(3, 3 + len(rest)))), (batch, channels, *rest)
    )


def _tile(n: Node) -> Value:
    repeats = [1] * len(n[0].shape)
    repeats[axis_of(n.integer("axis"), len(repeats))] = n.integer("tiles", 1)
    return n.graph.tile(n[0], repeats)


def _resize_nearest(n: Node) -> Value:
    scales = (n.number("height_scale", 1.0), n.number("width_scale", 1.0))
    batch, channels, *sizes = n[0].shape
    resized = [int(d * s) for d, s in zip(sizes, scales, strict=True)]
    return n.graph.resize(
        n[0],
        (batch, channels, *resized),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        scales=(1.0, 1.0, *scales),
    )


# --- reductions and selection -----------------------------------------------------------------------
def _reduce(name: str) -> Rule:
    def rule(n: Node) -> Value:
        axes = n.integers("axes") or tuple(range(len(n[0].shape)))
        return getattr(n.graph, name)(n[0], axes, bool(n.integer("keepdims", 1)))

    return rule


def _reduce_back(name: str) -> Rule:
    def rule(n: Node) -> Value:
        rank = len(n[0].shape)
        return getattr(n.graph, name)(n[0], tuple(range(rank - n.integer("num_reduce_dim", 1), rank)))

    return rule


def _arg(name: str) -> Rule:
    def rule(n: Node) -> Value:
        axis = axis_of(n.integer("axis", -1), len(n[0].shape))
        return getattr(n.graph, name)(n[0], axis, bool(n.integer("keepdims", 1)))

    return rule


def _top_k(n: Node) -> Sequence[Value]:
    return n.graph.top_k(n[0], n.integer("k"), n.integer("axis", -1))


def _gather(n: Node) -> Value:
    return n.graph.gather(n[0], n[1], 1 if n.op.type == "BatchGather" else n.integer("axis"))


def _constant_like(n: Node) -> Array:
    dtype = DTYPES.get(n.integer("dtype", 1), np.float32)
    shape = n[0].shape if not n.integer("input_as_shape") else tuple(n.array(0, "the shape").tolist())
    return np.full(shape, n.number("value")).astype(dtype)


_IDENTITIES = (
    "Alias",
    "Copy",
    "CopyCPUToMKL",
    "CopyMKLToCPU",
    "EnsureCPUOutput",
    "EnsureDense",
    "StopGradient",
)
_UNARY = {
    "Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "Log": "log", "Log1p": "log1p", "Negative": "neg", "Not": "logical_not", "Relu": "relu",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Softplus": "softplus",
    "Softsign": "softsign", "Sqrt": "sqrt", "Swish": "swish", "Tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "Add": "add", "And": "logical_and", "Div": "div", "EQ": "cmp_eq", "GE": "cmp_ge", "GT": "cmp_gt",
    "LE": "cmp_le", "LT": "cmp_lt", "Max": "max", "Min": "min", "Mul": "mul", "Or": "logical_or",
    "Pow": "pow", "PRelu": "prelu", "Sub": "sub", "Xor": "logical_xor",
}  # fmt: skip

RULES: dict[str, Rule] = {
    **{name: _identity for name in _IDENTITIES},
    **{name: _unary(method) for name, method in _UNARY.items()},
    **{name: _binary(method) for name, method in _BINARY.items()},
    **SPARSE,
    "ArgMax": _arg("arg_max"),
    "ArgMin": _arg("arg_min"),
    "AveragePool": _pool,
    "AveragedLoss": lambda n: n.graph.reduce_mean(n[0]),
    "BatchGather": _gather,
    "BatchMatMul": _matmul,
    "Cast": _cast,
    "ChannelShuffle": _channel_shuffle,
    "Clip": _clip,
    "Concat": _concat,
    "ConstantFill": _constant_like,
    "Conv": _conv,
    "ConvRelu": _conv,
    "ConvTranspose": _conv_transpose,
    "Dropout": lambda n: [n.blob(0), np.ones(n[0].shape, bool)],
    "ElementwiseLinear": _elementwise_linear,
    "Elu": lambda n: n.graph.elu(n[0], n.number("alpha", 1.0)),
    "ExpandDims": _expand_dims,
    "FC": _fully_connected,
    "FCTransposed": _fully_connected,
    "Flatten": _flatten,
    "FlattenToVec": _flatten,
    "Gather": _gather,
    "Gelu": _gelu,
    "HalfToFloat": lambda n: n.graph.cast(n[0], np.float32),
    "LRN": _lrn,
    "LayerNorm": _layer_norm,
    "LeakyRelu": lambda n: n.graph.leaky_relu(n[0], n.number("alpha", 0.01)),
    "Logit": lambda n: n.graph.logit(n[0], n.number("eps", 1e-6)),
    "MatMul": _matmul,
    "MaxPool": _pool,
    "Mean": _mean,
    "NCHW2NHWC": _order(0, 2, 3, 1),
    "NHWC2NCHW": _order(0, 3, 1, 2),
    "ReduceBackMean": _reduce_back("reduce_mean"),
    "ReduceBackSum": _reduce_back("reduce_sum"),
    "ReduceMean": _reduce("reduce_mean"),
    "ReduceSum": _reduce("reduce_sum"),
    "Reshape": _reshape,
    "ResizeNearest": _resize_nearest,
    "Scale": lambda n: n[0] * n.number("scale", 1.0),
    "Slice": _slice,
    "Softmax": _softmax,
    "SpatialBN": _spatial_bn,
    "Split": _split,
    "Sqr": lambda n: n[0] * n[0],
    "Squeeze": _squeeze,
    "Sum": _sum,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Where": lambda n: n.graph.select(n[0], n[1], n[2]),
}

__all__ = ["INTEGER_INPUTS", "RULES"]
