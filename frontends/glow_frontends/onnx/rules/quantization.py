"""Rules of linear quantisation: exact integer arithmetic around scales and zero points."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.types import UniformQuantizedType, tensor
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.unary_math import RoundOp
from glow_dialects.ops.windows import output_sizes
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.indexing import take
from glow_frontends.onnx.rules.nn import product
from glow_frontends.onnx.rules.packed_weights import packed_matrix
from glow_frontends.onnx.rules.rule import Versions, axis_of, ranked
from glow_frontends.onnx.rules.shape import cut
from glow_frontends.onnx.rules.windows import window_of
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape

INT16 = np.dtype(np.int16)
INT32 = np.dtype(np.int32)
FLOAT = np.dtype(np.float32)
#: Sums of this many products of centred bytes stay below 2^24, where float32 counts exactly.
EXACT = 256


def limits(dtype: np.dtype) -> tuple[float, float]:
    """Smallest and largest value of an integer or small float dtype."""
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        info = ml_dtypes.iinfo(dtype)
        return float(info.min), float(info.max)
    largest = float(ml_dtypes.finfo(dtype).max)  # pyright: ignore
    return -largest, largest


def is_integer(dtype: np.dtype) -> bool:
    """Whether an element type, sub-byte ones included, holds integers."""
    return dtype.name.startswith(("int", "uint"))


def spread(g: Emitter, n: Node, parameter: Value, x: Value) -> Value:
    """A scale or zero point in a form that broadcasts: per tensor, per axis, or per block."""
    if rank(parameter) == 0 or shape(parameter) == (1,):
        return g.reshape(parameter, ())
    axis = axis_of(n.integer("axis", 1), rank(x))
    if rank(parameter) == 1:
        dims = [1] * rank(x)
        dims[axis] = shape(parameter)[0]
        return g.reshape(parameter, dims)
    if rank(parameter) != rank(x) or not shape(parameter)[axis]:
        raise RuleError(f"a scale or zero point of shape {shape(parameter)} for a tensor of rank {rank(x)}")
    block = n.integer("block_size", 0) or -(-shape(x)[axis] // shape(parameter)[axis])
    return take(g, parameter, np.arange(shape(x)[axis], dtype=np.int64) // block, axis)


def quantized_kind(n: Node, x: Value, stored: np.dtype) -> UniformQuantizedType | None:
    """The quantised type that a conversion's known parameters give to `x`; None where there is none."""
    if n.integer("block_size", 0) or n.integer("precision", 0):
        return None
    return kind_of(x, n[1], n.get(2), stored, n.integer("axis", 1))


def kind_of(
    x: Value, scale: Value, zero: Value | None, stored: np.dtype, axis: int
) -> UniformQuantizedType | None:
    """The quantised type of a scale and a zero point, one or one an index of `axis` of `x`."""
    widths = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32}
    if stored.name not in widths:
        return None
    if not isinstance(scale, np.ndarray) or scale.dtype != FLOAT or not scale.size:
        return None
    if isinstance(zero, SSAValue) or not (np.isfinite(scale).all() and (scale > 0).all()):
        return None
    zeros = np.zeros(scale.shape, np.int64) if zero is None else np.asarray(zero).astype(np.int64)
    if scale.ndim > 1 or zeros.size != scale.size:
        return None
    width, signed = widths[stored.name], stored.kind == "i"
    if scale.size == 1:
        return UniformQuantizedType.of(width, float(scale.flat[0]), int(zeros.flat[0]), signed)
    axis = axis_of(axis, rank(x))
    scales, points = scale.astype(np.float64).tolist(), zeros.reshape(-1).tolist()
    return UniformQuantizedType.of(width, scales, points, signed, axis)


def as_real(g: Emitter, x: Value, kind: UniformQuantizedType) -> Value:
    """The real numbers that stored integers stand for."""
    held = tensor(shape(x), kind)
    if isinstance(x, np.ndarray):
        q = g.stored(x, held)
    elif isinstance(x.owner, BitCastOp) and x.owner.input.type == held:
        q = x.owner.input
    else:
        q = g(BitCastOp, x, results=held)
    return g(DequantizeOp, q, results=tensor(shape(x), FLOAT))


def as_stored(g: Emitter, x: Value, kind: UniformQuantizedType, target: np.dtype) -> Value:
    """Real numbers as plain integers."""
    return g(BitCastOp, g(QuantizeOp, x, results=tensor(shape(x), kind)), results=tensor(shape(x), target))


def quantize_linear(g: Emitter, n: Node) -> Value:
    """QuantizeLinear: saturate(round(x / scale) + zero point)."""
    x, scale, zero = n[0], n[1], n.get(2)
    target = np.dtype(np.uint8)
    if zero is not None:
        target = dtype_of_value(zero)
    elif n.integer("output_dtype", 0):
        target = numpy_type(n.integer("output_dtype"))
    kind = quantized_kind(n, x, target) if dtype_of_value(x) == FLOAT else None
    if kind is not None and isinstance(x, SSAValue):
        return as_stored(g, x, kind, target)
    precision = numpy_type(n.integer("precision")) if n.integer("precision", 0) else dtype_of_value(scale)
    if dtype_of_value(x) == INT32 and precision.kind != "f":
        precision = FLOAT
    ratio = g(DivOp, cast_to(g, x, precision), spread(g, n, cast_to(g, scale, precision), x))
    if not is_integer(target):
        if zero is not None:
            ratio = g(AddOp, ratio, cast_to(g, spread(g, n, zero, x), precision))
        return cast_to(g, ratio, target, n.flag("saturate", True))
    return saturate(g, ratio, None if zero is None else spread(g, n, zero, x), target)


def saturate(g: Emitter, ratio: Value, zero: Value | None, target: np.dtype) -> Value:
    """round(ratio) + zero point, clipped to the target's range."""
    wide = cast_to(g, g(RoundOp, ratio), FLOAT)
    if zero is not None:
        wide = g(AddOp, wide, cast_to(g, zero, FLOAT))
    low, high = limits(target)
    return cast_to(g, g(ClipOp, wide, min=low, max=high), target)


def dequantize_linear(g: Emitter, n: Node) -> Value:
    """DequantizeLinear: (x - zero point) * scale."""
    x, scale, zero = n[0], n[1], n.get(2)
    target = numpy_type(n.integer("output_dtype")) if n.integer("output_dtype", 0) else dtype_of_value(scale)
    kind = quantized_kind(n, x, dtype_of_value(x)) if target == FLOAT else None
    if kind is not None:
        return as_real(g, x, kind)
    packed = packed_matrix(g, n) if target == FLOAT else None
    if packed is not None:
        return packed
    exact = is_integer(dtype_of_value(x))
    wide = cast_to(g, x, INT32 if exact else FLOAT)
    if zero is not None:
        wide = g(SubOp, wide, cast_to(g, spread(g, n, zero, x), dtype_of_value(wide)))
    product_ = g(MulOp, cast_to(g, wide, FLOAT), cast_to(g, spread(g, n, scale, x), FLOAT))
    return cast_to(g, product_, target)


def centred(g: Emitter, x: Value, zero: Value | None, dims: Sequence[int] | None = None) -> Value:
    """x - zero point as int32; `dims` is the zero point's broadcast shape."""
    wide = cast_to(g, x, INT32)
    if zero is None:
        return wide
    if dims is not None and prod(shape(zero)) > 1:
        zero = g.reshape(zero, dims)
    elif rank(zero) and prod(shape(zero)) == 1:
        zero = g.reshape(zero, ())
    return g(SubOp, wide, cast_to(g, zero, INT32))


def _rows(value: Value) -> tuple[int, ...] | None:
    """Broadcast shape of a parameter with one entry a row."""
    return (*shape(value), 1) if rank(value) == 1 and shape(value) != (1,) else None


def exact_product(g: Emitter, a: Value, b: Value) -> Value:
    """The int32 product of centred bytes: float products of at most EXACT terms are exact."""
    depth = shape(a)[-1]
    total: Value | None = None
    for start in range(0, max(depth, 1), EXACT):
        end = min(start + EXACT, depth)
        part = product(g, _span(g, a, rank(a) - 1, start, end), _span(g, b, max(0, rank(b) - 2), start, end))
        part = cast_to(g, part, INT32)
        total = part if total is None else g(AddOp, total, part)
    assert total is not None
    return total


def _span(g: Emitter, x: Value, axis: int, start: int, end: int) -> Value:
    """x[start:end] of an axis, in float."""
    begins, ends = [0] * rank(x), list(shape(x))
    begins[axis], ends[axis] = start, end
    return cast_to(g, cut(g, x, begins, ends), FLOAT)


def matmul_integer(g: Emitter, n: Node) -> Value:
    """MatMulInteger: int32 products of centred operands."""
    a_zero = n.get(2)
    known = isinstance(n[1], np.ndarray) and rank(n[1]) == 2 and isinstance(n[0], SSAValue) and rank(n[0]) > 1
    weights = _known_weights(n, n.get(3)) if known else None
    if weights is not None:
        return _product_by_bytes(g, n[0], a_zero, weights)
    a = centred(g, n[0], a_zero, None if a_zero is None else _rows(a_zero))
    return exact_product(g, a, centred(g, n[1], n.get(3)))


def _known_weights(n: Node, zero: Value | None) -> np.ndarray | None:
    """Known weights less their zero point, signed: in 8 bits where they fit, else in 16.

    `zero` is of a form that broadcasts. None where the zero points are not known, or the input's is
    not one number.
    """
    w = n[1]
    if not isinstance(w, np.ndarray) or isinstance(zero, SSAValue) or not w.size:
        return None
    if n.get(2) is not None and shape(n[2]) not in ((), (1,)):
        return None
    wide = w.astype(np.int16) - (np.zeros((), np.int16) if zero is None else zero.astype(np.int16))
    return wide.astype(np.int8) if wide.min() >= -128 and wide.max() <= 127 else wide


def _bytes(g: Emitter, x: Value) -> Value:
    """Plain integers as stored ones of scale 1."""
    dtype = dtype_of_value(x)
    kind = UniformQuantizedType.of(8 * dtype.itemsize, 1.0, signed=dtype.kind == "i")
    return g(BitCastOp, x, results=tensor(shape(x), kind))


def _held(g: Emitter, weights: np.ndarray) -> Value:
    return g.stored(weights, tensor(weights.shape, UniformQuantizedType.of(8 * weights.itemsize, 1.0)))


def _product_by_bytes(g: Emitter, a: Value, zero: Value | None, weights: np.ndarray) -> Value:
    """(a - zero) @ weights: a @ weights on integer kernels, less zero times the sums of their columns."""
    rows, depth = prod(shape(a)[:-1]), shape(a)[-1]
    kind = tensor((rows, weights.shape[1]), INT32)
    flat = _bytes(g, g.reshape(a, (rows, depth)))
    total = g(QuantizedFullyConnectedOp, flat, _held(g, weights), None, results=kind)
    total = g.reshape(total, (*shape(a)[:-1], weights.shape[1]))
    if zero is None:
        return total
    columns = weights.sum(axis=0, dtype=np.int32)
    return g(SubOp, total, g(MulOp, cast_to(g, g.reshape(zero, ()), INT32), columns))


def qlinear_matmul(g: Emitter, n: Node) -> Value:
    """QLinearMatMul; of known weights between conversions, as a quantised graph is written."""
    kinds = _kinds(n, 1)
    if kinds is not None:
        parts = [as_real(g, v, k) for v, k in zip((n[0], n[3]), kinds[:2], strict=True)]
        return as_stored(g, product(g, *parts), kinds[2], dtype_of_value(n[7]))
    a, b = centred(g, n[0], n[2], _rows(n[2])), centred(g, n[3], n[5])
    total = cast_to(g, exact_product(g, a, b), FLOAT)
    left, right, out = (cast_to(g, n[i], FLOAT) for i in (1, 4, 6))
    rows = _rows(left)
    left = g.reshape(left, rows) if rows else left
    factor = g(DivOp, g(MulOp, left, right), out)
    return saturate(g, g(MulOp, total, factor), n[7], dtype_of_value(n[7]))


def _kinds(n: Node, axis: int) -> list[UniformQuantizedType] | None:
    """Types of input, weights and result where all parameters are known and integer kernels fit."""
    w, result = n[3], dtype_of_value(n[7])
    if not isinstance(w, np.ndarray) or not isinstance(n[0], SSAValue):
        return None
    candidates = [
        kind_of(n[0], n[1], n[2], dtype_of_value(n[0]), 0),
        kind_of(w, n[4], n[5], w.dtype, axis),
        kind_of(n[0], n[6], n[7], result, 0),
    ]
    kinds = [k for k in candidates if k is not None]
    whole = len(kinds) == 3 and kinds[0].axis.data < 0 and kinds[2].axis.data < 0
    fits = whole and (axis == 0 or rank(w) == 2)
    return kinds if fits else None


def _conv(g: Emitter, n: Node, x: Value, w: Value) -> Value:
    """The int32 convolution of centred bytes, in float where its sums are exact."""
    terms, inner = prod(shape(w)[2:]), ranked(w, 2)[1]
    if terms * inner <= EXACT:
        conv = _windowed(g, n, cast_to(g, x, FLOAT), cast_to(g, w, FLOAT))
        return cast_to(g, conv, INT32)
    if n.integer("group", 1) > 1 or terms > EXACT:
        return _windowed(g, n, x, w)
    total: Value | None = None
    for start in range(0, inner, EXACT // terms):
        end = min(start + EXACT // terms, inner)
        part = _windowed(g, n, _span(g, x, 1, start, end), _span(g, w, 1, start, end))
        part = cast_to(g, part, INT32)
        total = part if total is None else g(AddOp, total, part)
    assert total is not None
    return total


def _windowed(g: Emitter, n: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    window = window_of(n, shape(x)[2:], shape(w)[2:])
    return g(
        ConvOp,
        x,
        w,
        bias,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=n.integer("group", 1),
    )


def conv_integer(g: Emitter, n: Node) -> Value:
    """ConvInteger: an int32 convolution of centred operands."""
    w, zero = n[1], n.get(3)
    dims = None if zero is None else (*shape(zero), *(1,) * (rank(w) - 1))
    spread_zero = zero.reshape(dims) if isinstance(zero, np.ndarray) and dims is not None else zero
    weights = _known_weights(n, spread_zero) if isinstance(n[0], SSAValue) else None
    depthwise = 1 < n.integer("group", 1) == shape(n[0])[1] == shape(w)[0]
    if weights is None or rank(w) > 4 or depthwise:  # each channel alone: floats hold its sums exactly
        return _conv(g, n, centred(g, n[0], n.get(2)), centred(g, w, zero, dims))
    x = cast_to(g, n[0], INT16)
    if n.get(2) is not None:
        x = g(SubOp, x, cast_to(g, g.reshape(n[2], ()), INT16))
    window = window_of(n, shape(x)[2:], shape(w)[2:])
    options: dict[str, Any] = {"strides": window.strides, "pads": window.pads, "dilations": window.dilations}
    sizes = output_sizes(shape(x)[2:], shape(w)[2:], window.strides, window.pads, window.dilations)
    kind = tensor((shape(x)[0], shape(w)[0], *sizes), INT32)
    options["group"] = n.integer("group", 1)
    return g(QuantizedConvOp, _bytes(g, x), _held(g, weights), None, results=kind, **options)


def qlinear_conv(g: Emitter, n: Node) -> Value:
    """QLinearConv: an int32 convolution, its bias in units of the product of the scales."""
    x, w = n[0], n[3]
    if len(n.inputs) < 8:
        raise RuleError("8 inputs are expected")
    kinds = _kinds(n, 0)
    if kinds is not None and (n.get(8) is None or isinstance(n.get(8), np.ndarray)):
        return _quantized_conv(g, n, kinds)
    channels = (1, shape(w)[0], *(1,) * (rank(x) - 2))
    filters = (shape(w)[0], *(1,) * (rank(w) - 1))
    total = _conv(g, n, centred(g, x, n[2]), centred(g, w, n[5], filters))
    bias = n.get(8)
    if bias is not None:
        total = g(AddOp, total, g.reshape(bias, channels))
    factor = g(DivOp, g(MulOp, n[1], n[4]), n[6])
    many = prod(shape(factor)) > 1
    factor = g.reshape(factor, channels if many else ())
    y_zero = g.reshape(n[7], ())
    return saturate(g, g(MulOp, cast_to(g, total, FLOAT), factor), y_zero, dtype_of_value(n[7]))


def _quantized_conv(g: Emitter, n: Node, kinds: Sequence[UniformQuantizedType]) -> Value:
    source, weights, result = kinds
    bias = n.get(8)
    if bias is not None:
        scales = (weights.scale_array * source.scale_array).tolist()
        unit = UniformQuantizedType.of(32, scales, axis=0) if len(scales) > 1 else None
        bias = as_real(g, bias, unit or UniformQuantizedType.of(32, scales[0]))
    conv = _windowed(g, n, as_real(g, n[0], source), as_real(g, n[3], weights), bias)
    return as_stored(g, conv, result, dtype_of_value(n[7]))


RULES: dict[str, Versions] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
