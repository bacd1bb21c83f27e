"""Rules of block-quantised low-bit weights, and of small com.microsoft operators."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.dequantize_blocks import WIDTHS, DequantizeBlocksOp, dequantize_blocks, pack, unpack
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_dialects.ops.unary_math import SqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import take
from glow_frontends.onnx.node import REQUIRED, Node, known_inputs
from glow_frontends.onnx.rules.indexing import indices_of
from glow_frontends.onnx.rules.rule import Versions


def matmul_n_bits(g: Emitter, n: Node) -> Value:
    """MatMulNBits: a product with weights [N, K] of few bits, each block of K with a scale.

    `g_idx` names the block of each place of K. With `accuracy_level` 4 activations are rounded to eight bits,
    by a scale for each block, where integer kernels take such blocks.
    """
    rows, depth = n.integer("N"), n.integer("K")
    bits, block = n.integer("bits", 4), n.integer("block_size", REQUIRED)
    if n.flag("weight_prepacked"):
        raise RuleError("weights in an order of their own")
    if bits not in WIDTHS or block * bits % 8:
        raise RuleError(f"weights of {bits} bits in blocks of {block}")
    what = "the weights of MatMulNBits"
    count = -(-depth // block)
    codes = g.known(n[1], what).reshape(rows, -1)[:, : -(-depth * bits // 8)]
    scales = g.known(n[2], what).astype(np.float32).reshape(rows, count)
    points = _points(g, n.get(3), bits, (rows, count))
    point = 0.0 if points is not None else float(1 << (bits - 1))
    form: dict[str, Any] = {"bits": bits, "block": block, "depth": depth, "point": point}
    x = cast_to(g, n[0], np.dtype(np.float32))
    if n.get(4) is not None:
        order = _by_blocks(g.known(n[4], "the blocks of MatMulNBits"), depth, block)
        codes = pack(unpack(codes, bits, depth)[:, order], bits)
        x = take(g, x, order, rank(x) - 1)
    if n.integer("accuracy_level", 0) == 4 and block % 32 == 0 == depth % block:
        x = g(RoundBlocksOp, x, block=block)
    y = cast_to(g, _few_bits_product(g, x, codes, scales, points, form), dtype_of_value(n[0]))
    return y if n.get(5) is None else g(AddOp, y, n[5])


def _by_blocks(blocks: Array, depth: int, block: int) -> Array:
    """The places of a reduction in the order of their blocks, all of which but the last are full."""
    order = np.argsort(blocks[:depth], kind="stable")
    if blocks.size < depth or not np.array_equal(blocks[order], np.arange(depth) // block):
        raise RuleError(f"blocks that do not have {block} elements each")
    return order


def _few_bits_product(
    g: Emitter, x: Value, codes: Array, scales: Array, points: Array | None, form: dict[str, Any]
) -> Value:
    """x @ w' for codes of w, in f32."""
    parts: list[Value | None] = [codes, scales, points]
    if isinstance(x, SSAValue):  # as values of the graph: constants would be converted to floats at once
        parts = [None if part is None else g.value(part) for part in parts]
    w = g(DequantizeBlocksOp, *parts, **form)
    y = product(g, cast_to(g, x, np.dtype(np.float32)), g.transpose(w, (1, 0)))
    return cast_to(g, y, dtype_of_value(x))


def _points(g: Emitter, zeros: Value | None, bits: int, dims: tuple[int, int]) -> Array | None:
    """Zero points of blocks: packed as the weights are, or plain."""
    if zeros is None:
        return None
    known = g.known(zeros, "zero points of blocks")
    packed = known.dtype == np.uint8 and bits < 8
    places = dims[0], -(-dims[1] * bits // 8) if packed else dims[1]
    if known.size != prod(places):
        raise RuleError(
            f"{known.size} zero points of blocks where {places[0]} rows of {places[1]} are expected"
        )
    if packed:
        known = unpack(known.reshape(dims[0], -1), bits, dims[1])
    return known.astype(np.float32).reshape(dims)


#: The values of the codes of bitsandbytes' types: FP4, NF4.
_FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25)
_NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
_BNB4 = {0: (*_FP4, *(-x for x in _FP4)), 1: _NF4}


def matmul_bnb4(g: Emitter, n: Node) -> Value:
    """MatMulBnb4: a product with weights of bitsandbytes, blocks running on from row to row."""
    rows, depth, block = n.integer("N"), n.integer("K"), n.integer("block_size", REQUIRED)
    kind, what = n.integer("quant_type", REQUIRED), "the weights of MatMulBnb4"
    if kind not in _BNB4:
        raise RuleError(f"quant_type {kind} is none of FP4 (0), NF4 (1)")
    packed, scales = g.known(n[1], what).reshape(-1), g.known(n[2], what).astype(np.float32)
    packed = packed << np.uint8(4) | packed >> np.uint8(4)  # the first of two codes is in the high bits
    if depth % block or depth % 2:
        levels = np.asarray(_BNB4[kind], np.float32)[unpack(packed, 4, rows * depth)]
        real = levels * np.repeat(scales.reshape(-1), block)[: rows * depth]
        return product(g, n[0], real.reshape(rows, depth).T.astype(dtype_of_value(n[0])))
    codes = packed.reshape(rows, -1)
    form = {"bits": 4, "block": block, "depth": depth, "levels": _BNB4[kind]}
    return _few_bits_product(g, n[0], codes, scales.reshape(rows, -1), None, form)


def gather_block_quantized(g: Emitter, n: Node) -> Value:
    """GatherBlockQuantized: rows of a table of few bits with scales of blocks."""
    what = "the table of GatherBlockQuantized"
    data, scales = g.known(n[0], what), g.known(n[2], what)
    zeros = None if n.get(3) is None else g.known(n[3], what)
    packed, block = data.dtype == np.uint8, n.integer("block_size", 128)
    bits = n.integer("bits", 4) if packed else 4
    if bits not in WIDTHS:
        raise RuleError(f"a table of {bits} bits")
    axis = axis_of(n.integer("quantize_axis", data.ndim - 1), data.ndim)
    rows = axis_of(n.integer("gather_axis", 0), data.ndim)
    if packed and axis != data.ndim - 1:
        raise RuleError("bytes packed along another axis than the last")
    lowest = 8 if data.dtype.name == "int4" else 0  # from signed to unsigned codes
    point = float(1 << (bits - 1)) if packed else float(lowest)
    sizes = data.shape
    if not packed:
        data = (data.astype(np.int8) + np.int8(lowest)).astype(np.uint8)
        data = pack(np.moveaxis(data, axis, -1), bits)
    elif zeros is not None and bits < 8:
        zeros = unpack(zeros, bits, scales.shape[-1])
    depth = sizes[axis] * 8 // bits if packed else sizes[axis]
    points = None if zeros is None else np.moveaxis(zeros.astype(np.float32), axis, -1) + lowest
    wide = np.moveaxis(scales.astype(np.float32), axis, -1)
    form: dict[str, Any] = {"bits": bits, "block": block, "depth": depth}
    form["point"] = 0.0 if points is not None else point
    places, checked = indices_of(g, n, n[1], [depth if rows == axis else sizes[rows]])
    if rows == axis or axis != data.ndim - 1:
        table = dequantize_blocks(data, wide, points, levels=None, **form)
        return take(g, np.moveaxis(table, -1, axis).astype(scales.dtype), places, rows, checked)
    codes = take(g, data, places, rows, checked)
    parts = [codes, *(None if part is None else take(g, part, places, rows) for part in (wide, points))]
    return cast_to(g, g(DequantizeBlocksOp, *parts, **form), scales.dtype)


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
    "MatMulBnb4": matmul_bnb4,
    "MatMulNBits": matmul_n_bits,
    "Unique": unique,
}
