"""Constant low-bit weights stay packed after DequantizeLinear; products read them directly."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import WIDTHS, DequantizeBlocksOp, pack
from glow_frontends.graph import Emitter, Value
from glow_frontends.graph.axes import axis_of
from glow_frontends.onnx.node import Node

#: Matrices of fewer codes are floats at once.
FEWEST = 1 << 12


def packed_matrix(g: Emitter, n: Node) -> Value | None:
    """The f32 matrix of a DequantizeLinear of 2 or 4 bits, packed; None where it is of another form.

    The codes of a block, or of a row or column with one scale, lie along the last axis of the packed array.
    """
    codes, scale, zero = n[0], n[1], n.get(2)
    if g.training or not isinstance(codes, np.ndarray) or not isinstance(scale, np.ndarray):
        return None
    match = re.fullmatch(r"(u?)int([24])", codes.dtype.name)
    if match is None or not (zero is None or isinstance(zero, np.ndarray)):
        return None
    if codes.ndim != 2 or codes.size < FEWEST or scale.dtype != np.float32:
        return None
    bits = int(match[2])
    assert bits in WIDTHS
    axis, block = axis_of(n.integer("axis", 1), 2), n.integer("block_size", 0)
    along = axis if block or scale.size == 1 else 1 - axis
    depth, rows = codes.shape[along], codes.shape[1 - along]
    block = block or depth
    blocks = -(-depth // block)

    def by_rows(parameter: Array) -> Array:
        parameter = parameter.astype(np.float32)
        if parameter.ndim == 2:
            return np.ascontiguousarray(np.moveaxis(parameter, along, -1))
        return np.broadcast_to(parameter.reshape(-1, 1), (rows, 1)).copy()

    scales = by_rows(scale)
    if scales.shape != (rows, blocks):
        return None
    lowest = 0 if match[1] else 1 << (bits - 1)  # from signed to unsigned codes
    shifted = (np.moveaxis(codes, along, -1).astype(np.int8) + np.int8(lowest)).astype(np.uint8)
    points = None if zero is None else g.value(by_rows(zero) + np.float32(lowest))
    form: dict[str, Any] = {"bits": bits, "block": block, "depth": depth}
    form["point"] = 0.0 if points is not None else float(lowest)
    parts = [g.value(pack(shifted, bits)), g.value(scales), points]
    matrix = g(DequantizeBlocksOp, *parts, **form)
    return matrix if along == 1 else g.transpose(matrix, (1, 0))
