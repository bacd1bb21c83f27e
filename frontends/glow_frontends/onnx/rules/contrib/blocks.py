"""Rules of weights of few bits in blocks, and of small operators that nothing standard expresses."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.unary_math import SqrtOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.index import non_negative, take
from glow_frontends.onnx.rules.nn import product
from glow_frontends.onnx.rules.rule import Versions, axis_of
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape


def unpack(packed: Array, bits: int, count: int) -> Array:
    """The first `count` numbers of `bits` in each row of bytes, lowest bits first."""
    if bits not in (1, 2, 4, 8):
        raise RuleError(f"weights of {bits} bits")
    each = 8 // bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(bits)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)[..., :count]


def matmul_n_bits(g: Emitter, n: Node) -> Value:
    """MatMulNBits: a product with weights [N, K] of few bits, each block of K with a scale."""
    rows, depth = n.integer("N"), n.integer("K")
    bits, block = n.integer("bits", 4), n.integer("block_size")
    if n.get(4) is not None or n.flag("weight_prepacked"):
        raise RuleError("weights in an order of their own")
    what = "the weights of MatMulNBits"
    count = -(-depth // block)
    packed = g.known(n[1], what).reshape(rows, count, -1)
    scales = g.known(n[2], what).astype(np.float32).reshape(rows, count, 1)
    numbers = unpack(packed, bits, block).astype(np.float32)
    real = (numbers - _points(g, n.get(3), bits, (rows, count))) * scales
    weights = real.reshape(rows, -1)[:, :depth].T.astype(dtype_of_value(n[0]))
    y = product(g, n[0], np.ascontiguousarray(weights))
    return y if n.get(5) is None else g(AddOp, y, n[5])


def _points(g: Emitter, zeros: Value | None, bits: int, dims: tuple[int, int]) -> Array:
    """Zero points of blocks: packed as the weights are, plain, or the middle of the range."""
    if zeros is None:
        return np.array(float(1 << (bits - 1)), np.float32)
    known = g.known(zeros, "zero points of blocks")
    if known.dtype == np.uint8 and bits < 8:
        known = unpack(known.reshape(dims[0], -1), bits, dims[1])
    return known.astype(np.float32).reshape(*dims, 1)


def gather_block_quantized(g: Emitter, n: Node) -> Value:
    """GatherBlockQuantized: rows of a table of few bits with scales of blocks."""
    what = "the table of GatherBlockQuantized"
    data, scales = g.known(n[0], what), g.known(n[2], what)
    bits, block = n.integer("bits", 4), n.integer("block_size", 128)
    axis = axis_of(n.integer("quantize_axis", data.ndim - 1), data.ndim)
    zeros = None if n.get(3) is None else g.known(n[3], what)
    if data.dtype == np.uint8:
        if axis != data.ndim - 1:
            raise RuleError("bytes packed along another axis than the last")
        data = unpack(data, bits, data.shape[-1] * 8 // bits)
        default = float(1 << (bits - 1))
        if zeros is not None and bits < 8:
            zeros = unpack(zeros, bits, scales.shape[-1])
    else:
        default = 0.0
    real = data.astype(np.float32)
    point = np.full(scales.shape, default, np.float32) if zeros is None else zeros.astype(np.float32)
    wide = [np.repeat(p.astype(np.float32), block, axis) for p in (point, scales)]
    end = tuple(slice(0, d) for d in real.shape)
    table = ((real - wide[0][end]) * wide[1][end]).astype(scales.dtype)
    gathered = axis_of(n.integer("gather_axis", 0), table.ndim)
    return take(g, table, non_negative(g, n[1], table.shape[gathered]), gathered)


def distances(g: Emitter, n: Node) -> Value:
    """CDist: distances [M, N] between the rows of A [M, K] and B [N, K]."""
    a, b, metric = n[0], n[1], n.text("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise RuleError(f"metric '{metric}' is unknown")
    squares = [g(ReduceSumOp, g(MulOp, x, x), axes=(1,), keepdims=True) for x in (a, b)]
    inner = product(g, a, g.transpose(b, (1, 0)))
    total = g(AddOp, squares[0], g.reshape(squares[1], (1, shape(b)[0])))
    y = g(MaxOp, g(SubOp, total, g(AddOp, inner, inner)), g.like(0, inner))
    return y if metric == "sqeuclidean" else g(SqrtOp, y)


def inverse(g: Emitter, n: Node) -> Array:
    """Inverse of square matrices, on the host."""
    del g
    (x,) = known_inputs(n)
    if x is None or rank(x) < 2 or x.shape[-1] != x.shape[-2]:
        raise RuleError("no square matrices")
    try:
        return np.linalg.inv(x.astype(np.float64)).astype(x.dtype)
    except np.linalg.LinAlgError:
        raise RuleError("a matrix has no inverse") from None


def unique(g: Emitter, n: Node) -> list[Array]:
    """Unique numbers in order of appearance, on the host: values, each one's place, counts."""
    del g
    (x,) = known_inputs(n)
    if x is None:
        raise RuleError("input 0 is missing")
    values, first, place, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    back = np.empty_like(order)
    back[order] = np.arange(order.size)
    return [values[order], back[place.reshape(-1)].astype(np.int64), counts[order].astype(np.int64)]


RULES: dict[str, Versions] = {
    "CDist": distances,
    "GatherBlockQuantized": gather_block_quantized,
    "Inverse": inverse,
    "MatMulNBits": matmul_n_bits,
    "Unique": unique,
}
