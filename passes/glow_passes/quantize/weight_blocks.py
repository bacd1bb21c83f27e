"""Low-bit weights: codes with one scale per block, with the range of the least error."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import pack

_SHRINKS = {4: (1.0, 0.95, 0.9, 0.85, 0.79), 8: (1.0,)}
"""How much of its largest number the range of a block holds: those that are tried."""
_PIECE = 1 << 16
"""Elements that are looked at together, in a cache."""


def quantize_blocks(
    weights: Array, bits: int, block: int, importance: Array | None = None
) -> tuple[Array, Array]:
    """Codes (bytes, packed) and scales (f32, of f16's values) of a matrix [outputs, inputs].

    The point of all codes is 2^(bits - 1). Each scale is the one, of some ranges, with the least sum of
    squared errors, weighed by `importance` [inputs], such as the mean squares of the activations.
    """
    if bits not in _SHRINKS:
        raise GlowError(f"weights of {bits} bits are not supported; use 4 or 8")
    outputs, inputs = weights.shape
    if block < 1 or inputs % block:
        raise GlowError(f"{inputs} inputs of a matrix are not a multiple of the block size {block}")
    weigh = np.ones(inputs, np.float32) if importance is None else np.asarray(importance, np.float32)
    codes = np.empty((outputs, inputs), np.uint8)
    scales = np.empty((outputs, inputs // block), np.float32)
    step = max(1, _PIECE // inputs)
    for start in range(0, outputs, step):
        rows = np.asarray(weights[start : start + step], np.float32)
        made = _quantized(rows.reshape(len(rows), -1, block), bits, weigh.reshape(-1, block))
        codes[start : start + step] = made[0].reshape(len(rows), inputs)
        scales[start : start + step] = made[1]
    return pack(codes, bits), scales


def _quantized(blocks: Array, bits: int, importance: Array) -> tuple[Array, Array]:
    """Codes and scales of blocks [rows, blocks, block]."""
    half = 1 << (bits - 1)
    place = np.abs(blocks).argmax(-1)[..., None]
    # The largest number, with its sign, is at the end of the range that reaches further.
    peak = np.take_along_axis(blocks, place, -1)[..., 0] / np.float32(-half)
    best, scales = np.full(peak.shape, np.inf, np.float32), np.zeros(peak.shape, np.float32)
    for shrink in _SHRINKS[bits]:
        scale = (peak * np.float32(shrink)).astype(np.float16).astype(np.float32)
        away = _rounded(blocks, scale, half)
        away *= scale[..., None]
        away -= blocks
        away *= away
        away *= importance
        error = away.sum(-1)
        better = error < best
        best, scales = np.where(better, error, best), np.where(better, scale, scales)
    return (_rounded(blocks, scales, half) + half).astype(np.uint8), scales


def _rounded(blocks: Array, scales: Array, half: int) -> Array:
    """The whole numbers next to blocks over their scales."""
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)
    whole = blocks * inverse[..., None]
    np.rint(whole, out=whole)
    return np.clip(whole, -half, half - 1, out=whole)
