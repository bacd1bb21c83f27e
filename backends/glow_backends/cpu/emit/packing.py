"""Constants at compile time, as kernels read them: weights in panels, biases and factors of integer sums."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute

from glow_dialects.core.blocks import pad_to
from glow_dialects.core.types import Array, UniformQuantizedType
from glow_dialects.ops.requantize import factor_of, scale_of


def pack_panels(matrix: np.ndarray, width: int) -> np.ndarray:
    """(..., K, N) to (..., ceil(N / width), K, width), the last padded with zeros; a view if it can be."""
    padded = pad_to(matrix, matrix.ndim - 1, width)
    *lead, rows, columns = padded.shape
    split = padded.reshape(*lead, rows, columns // width, width)
    return np.moveaxis(split, -2, -3)


def bias_of(filters: Array, bias: Array | None, zero: int) -> Array:
    """The initial value of sums of stored integers: the bias, less the input's zero point times weights."""
    taps = filters.astype(np.int64).sum(axis=tuple(range(1, filters.ndim)))
    total = -zero * taps + (0 if bias is None else bias.astype(np.int64))
    return total.astype(np.int32)


def factors_of(
    weights: UniformQuantizedType, source: UniformQuantizedType, to: Attribute, count: int
) -> Array:
    """float32 factor of the sums, one an output channel."""
    return np.broadcast_to(factor_of(weights.scale_array, scale_of(source), to), (count,))
