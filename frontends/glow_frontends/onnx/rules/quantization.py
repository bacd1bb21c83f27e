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
from glow_dialects.ops.byte_scale import ByteScaleOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.quantized_matmul import QuantizedMatmulOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.unary_math import RoundOp
from glow_dialects.ops.windows import output_sizes
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.axes import axis_of, ranked
from glow_frontends.graph.movement import span, take
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.packed_weights import packed_matrix
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.windows import window_of
from glow_frontends.onnx.tensors import numpy_type

UINT8 = np.dtype(np.uint8)
INT16 = np.dtype(np.int16)
INT32 = np.dtype(np.int32)
FLOAT = np.dtype(np.float32)
#: A stored tensor, its scale and its zero point.
Triple = tuple[Value, Value, Value | None]
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


def _axis(axis: int, x: Value) -> int:
    """The axis of scales; a vector has but one, whatever its node says (Neural Compressor's biases say 1)."""
    return 0 if rank(x) == 1 else axis_of(axis, rank(x))


def spread(g: Emitter, n: Node, parameter: Value, x: Value) -> Value:
    """A scale or zero point in a form that broadcasts: per tensor, per axis, or per block."""
    if rank(parameter) == 0 or shape(parameter) == (1,):
        return g.reshape(parameter, ())
    axis = _axis(n.integer("axis", 1), x)
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
    axis = _axis(axis, x)
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
    target = UINT8
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


def dynamic_quantize_linear(g: Emitter, n: Node) -> list[Value]:
    """DynamicQuantizeLinear: bytes, and the scale and the zero point of the range of x and 0."""
    return dynamically_quantized(g, n[0])


def dynamically_quantized(g: Emitter, x: Value) -> list[Value]:
    """x in bytes, their scale and their zero point."""
    scale, zero = g.many(ByteScaleOp, x)
    return [saturate(g, g(DivOp, x, scale), zero, UINT8), scale, zero]


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


def integer_product(g: Emitter, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None) -> Value:
    """(a - a_zero) @ (b - b_zero) of bytes, exact in int32; zero points of all, of rows and of columns.

    Zero points that no integer kernel takes are multiplied by sums of the other operand.
    """
    if rank(a) < 2 or rank(b) < 2:
        dims = (*shape(a)[:-1], *(*shape(b)[:-2], *shape(b)[-1:])[: rank(b) - 1])
        left = g.reshape(a, (1, *shape(a))) if rank(a) < 2 else a
        right = g.reshape(b, (*shape(b), 1)) if rank(b) < 2 else b
        return g.reshape(integer_product(g, left, right, a_zero, b_zero), dims)
    rows, columns = (None if z is None else _parameter(g, z, i) for i, z in ((1, a_zero), (0, b_zero)))
    centre = rows
    if isinstance(b, np.ndarray) and rank(b) == 2 and b.size and isinstance(a, SSAValue):
        b, columns = _signed_bytes(g, b, columns)
        b_zero, count = None, prod(shape(a)[:-1])
        flat, kind = _bytes(g, g.reshape(a, (count, shape(a)[-1]))), tensor((count, shape(b)[1]), INT32)
        total = g(QuantizedFullyConnectedOp, flat, _held(g, b), None, results=kind)
        total = g.reshape(total, (*shape(a)[:-1], shape(b)[1]))
    else:
        left, rows = _stored_bytes(g, a, rows)
        right, columns = _stored_bytes(g, b, columns)
        batch = np.broadcast_shapes(shape(a)[:-2], shape(b)[:-2])
        kind = tensor((*batch, shape(a)[-2], shape(b)[-1]), INT32)
        total = g(QuantizedMatmulOp, left, right, results=kind)
    if rows is not None:
        below = centred(g, b, b_zero if columns is None else None)
        below = g(ReduceSumOp, below, axes=(rank(b) - 2,), keepdims=True)
        total = g(SubOp, total, g(MulOp, cast_to(g, rows, INT32), below))
    if columns is not None:
        along = g(ReduceSumOp, centred(g, a, centre), axes=(rank(a) - 1,), keepdims=True)
        total = g(SubOp, total, g(MulOp, cast_to(g, columns, INT32), along))
    return total


def _parameter(g: Emitter, zero: Value, axis: int) -> Value:
    """A parameter as it meets a matrix: of one number, of columns (axis 0) or of rows (axis 1)."""
    if prod(shape(zero)) == 1:
        return g.reshape(zero, ())
    return g.reshape(zero, (*shape(zero), 1)) if axis and rank(zero) == 1 else zero


def _signed_bytes(g: Emitter, w: np.ndarray, zero: Value | None) -> tuple[np.ndarray, Value | None]:
    """Known bytes as signed ones, less their zero points where these fit in, else beside."""
    if not isinstance(zero, SSAValue):
        wide = w.astype(np.int16) - (np.int16(0) if zero is None else zero.astype(np.int16))
        if wide.min() >= -128 and wide.max() <= 127:
            return wide.astype(np.int8), None
    if w.dtype == np.int8:
        return w, zero
    spread = np.zeros((), np.int32) if zero is None else zero
    return (w ^ np.uint8(128)).view(np.int8), g(SubOp, cast_to(g, spread, INT32), np.array(128, INT32))


def _stored_bytes(g: Emitter, x: Value, zero: Value | None) -> tuple[Value, Value | None]:
    """8-bit values with a zero point: in the type if it is one known number, otherwise as a second value."""
    dtype, point, rest = dtype_of_value(x), 0, zero
    if isinstance(zero, np.ndarray) and not zero.ndim:
        point, rest = int(zero), None
    kind = UniformQuantizedType.of(8 * dtype.itemsize, 1.0, point, dtype.kind == "i")
    held = tensor(shape(x), kind)
    return g.stored(x, held) if isinstance(x, np.ndarray) else g(BitCastOp, x, results=held), rest


def real_product(g: Emitter, left: Triple, right: Triple, terms: Value | None, bias: Value | None) -> Value:
    """The product of stored tensors, `terms` in units of it and a real bias added."""
    total = integer_product(g, left[0], right[0], left[2], right[2])
    if terms is not None:
        total = g(AddOp, total, terms)
    scales = [_parameter(g, scale, axis) for (_, scale, _), axis in ((left, 1), (right, 0))]
    y = g(MulOp, cast_to(g, total, FLOAT), g(MulOp, *scales))
    return y if bias is None else g(AddOp, y, bias)


def matmul_integer(g: Emitter, n: Node) -> Value:
    """MatMulInteger: int32 products of centred operands."""
    return integer_product(g, n[0], n[1], n.get(2), n.get(3))


def _known_weights(w: np.ndarray, zero: Value | None) -> np.ndarray | None:
    """Known weights less their zero point, signed: in 8 bits where they fit, else in 16.

    `zero` is of a form that broadcasts. None where the zero points are not known.
    """
    if isinstance(zero, SSAValue) or not w.size:
        return None
    wide = w.astype(np.int16) - (np.int16(0) if zero is None else zero.astype(np.int16))
    return wide.astype(np.int8) if wide.min() >= -128 and wide.max() <= 127 else wide


def _bytes(g: Emitter, x: Value) -> Value:
    """Plain integers as stored ones of scale 1."""
    dtype = dtype_of_value(x)
    kind = UniformQuantizedType.of(8 * dtype.itemsize, 1.0, signed=dtype.kind == "i")
    return g(BitCastOp, x, results=tensor(shape(x), kind))


def _held(g: Emitter, weights: np.ndarray) -> Value:
    return g.stored(weights, tensor(weights.shape, UniformQuantizedType.of(8 * weights.itemsize, 1.0)))


def qlinear_matmul(g: Emitter, n: Node) -> Value:
    """QLinearMatMul; of known weights between conversions, as a quantised graph is written."""
    kinds = stored_kinds(n, 1)
    if kinds is not None:
        parts = [as_real(g, v, k) for v, k in zip((n[0], n[3]), kinds[:2], strict=True)]
        return as_stored(g, product(g, *parts), kinds[2], dtype_of_value(n[7]))
    total = cast_to(g, integer_product(g, n[0], n[3], n[2], n[5]), FLOAT)
    left, right, out = (cast_to(g, n[i], FLOAT) for i in (1, 4, 6))
    factor = g(DivOp, g(MulOp, _parameter(g, left, 1), _parameter(g, right, 0)), out)
    return saturate(g, g(MulOp, total, factor), n[7], dtype_of_value(n[7]))


def stored_kinds(n: Node, axis: int) -> list[UniformQuantizedType] | None:
    """Types of input, weights and result where all parameters are known and integer kernels fit."""
    w, result = n[3], dtype_of_value(n[0] if n.get(7) is None else n[7])
    if not isinstance(w, np.ndarray) or not isinstance(n[0], SSAValue):
        return None
    candidates = [
        kind_of(n[0], n[1], n.get(2), dtype_of_value(n[0]), 0),
        kind_of(w, n[4], n.get(5), w.dtype, axis),
        kind_of(n[0], n[6], n.get(7), result, 0),
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
        part = _windowed(g, n, *(cast_to(g, span(g, v, 1, start, end), FLOAT) for v in (x, w)))
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
    weights = None
    if isinstance(n[0], SSAValue) and isinstance(w, np.ndarray):
        weights = _known_weights(w, spread_zero)
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
    kinds = stored_kinds(n, 0)
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


def real_bias(g: Emitter, bias: Value, source: UniformQuantizedType, weights: UniformQuantizedType) -> Value:
    """The real numbers of a bias in units of the product of the scales."""
    scales = (weights.scale_array * source.scale_array).tolist()
    unit = UniformQuantizedType.of(32, scales, axis=0) if len(scales) > 1 else None
    return as_real(g, bias, unit or UniformQuantizedType.of(32, scales[0]))


def _quantized_conv(g: Emitter, n: Node, kinds: Sequence[UniformQuantizedType]) -> Value:
    source, weights, result = kinds
    bias = n.get(8)
    if bias is not None:
        bias = real_bias(g, bias, source, weights)
    conv = _windowed(g, n, as_real(g, n[0], source), as_real(g, n[3], weights), bias)
    return as_stored(g, conv, result, dtype_of_value(n[7]))


RULES: dict[str, Versions] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
