"""Weights rearranged at compile time into the order in which kernels read them."""

from __future__ import annotations

import numpy as np

from glow_backends.cpu.emit.memory import ceil_div


def pad_to(array: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    """`array` with zeros appended along `axis` up to a multiple."""
    missing = -array.shape[axis] % multiple
    if not missing:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, missing)
    return np.pad(array, widths)


def pack_panels(matrix: np.ndarray, width: int) -> np.ndarray:
    """(..., K, N) to (..., ceil(N / width), K, width), the last padded with zeros; a view if it can be."""
    padded = pad_to(matrix, matrix.ndim - 1, width)
    *lead, rows, columns = padded.shape
    split = padded.reshape(*lead, rows, columns // width, width)
    return np.moveaxis(split, -2, -3)


def block_channels(array: np.ndarray, lanes: int) -> np.ndarray:
    """(N, C, spatial...) to (N, ceil(C / lanes), spatial..., lanes), padded with zeros."""
    padded = pad_to(array, 1, lanes)
    n, channels, *spatial = padded.shape
    split = padded.reshape(n, channels // lanes, lanes, *spatial)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def unblock_channels(array: np.ndarray, channels: int) -> np.ndarray:
    """The inverse of `block_channels`."""
    n, blocks, *spatial, lanes = array.shape
    plain = np.moveaxis(array, -1, 2).reshape(n, blocks * lanes, *spatial)
    return np.ascontiguousarray(plain[:, :channels])


def blocked_shape(shape: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """The shape `block_channels` gives to an array of `shape`."""
    return (shape[0], ceil_div(shape[1], lanes), *shape[2:], lanes)
