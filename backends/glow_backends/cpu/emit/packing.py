"""Weights rearranged at compile time into the order in which kernels read them."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.blocks import pad_to


def pack_panels(matrix: np.ndarray, width: int) -> np.ndarray:
    """(..., K, N) to (..., ceil(N / width), K, width), the last padded with zeros; a view if it can be."""
    padded = pad_to(matrix, matrix.ndim - 1, width)
    *lead, rows, columns = padded.shape
    split = padded.reshape(*lead, rows, columns // width, width)
    return np.moveaxis(split, -2, -3)
