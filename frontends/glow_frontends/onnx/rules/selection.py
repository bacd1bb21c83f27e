"""Rules of operators whose result's size depends on data: they run on the host, on NumPy arrays."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.graph import Emitter, RuleError
from glow_frontends.graph.axes import axis_of
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.rule import Versions


def inputs_of(n: Node, count: int) -> list[Any]:
    """The first `count` inputs as arrays, None where absent; the very first must be there."""
    known = known_inputs(n)
    if not known or known[0] is None:
        raise RuleError("input 0 is missing")
    return [known[i] if i < len(known) else None for i in range(count)]


def unique(g: Emitter, n: Node) -> list[Array]:
    """Unique elements or slices, sorted or in order of appearance."""
    del g
    (x,) = inputs_of(n, 1)
    axis = axis_of(n.integer("axis"), x.ndim) if n.has("axis") else None
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not n.flag("sorted", True):
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        inverse = place[inverse]
    return [values, *(a.astype(np.int64) for a in (first, inverse, counts))]


def max_roi_pool(g: Emitter, n: Node) -> Array:
    """MaxRoiPool: the maximum of each cell of regions (batch, left, top, right, bottom)."""
    del g
    x, rois = inputs_of(n, 2)
    height, width = n.integers("pooled_shape")
    corners = rois[:, 1:] * n.number("spatial_scale", 1.0)
    scaled = np.trunc(corners + np.copysign(0.5, corners)).astype(int)  # halves away from 0
    out = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for index, (left, top, right, bottom) in enumerate(scaled):
        plane = x[int(rois[index, 0])]
        rows = _cells(top, max(bottom - top + 1, 1), height, plane.shape[1])
        columns = _cells(left, max(right - left + 1, 1), width, plane.shape[2])
        for i, (first, last) in enumerate(rows):
            for j, (start, end) in enumerate(columns):
                if last > first and end > start:
                    out[index, :, i, j] = plane[:, first:last, start:end].max(axis=(1, 2))
    return out


def _cells(start: int, span: int, count: int, size: int) -> list[tuple[int, int]]:
    """Begin and end of each of `count` cells of a span, inside [0, size]."""
    steps = span / count
    ends = [(int(np.floor(i * steps)) + start, int(np.ceil((i + 1) * steps)) + start) for i in range(count)]
    return [(min(max(a, 0), size), min(max(b, 0), size)) for a, b in ends]


def image_decoder(g: Emitter, n: Node) -> Array:
    """ImageDecoder, by Pillow where it is installed."""
    del g
    (data,) = inputs_of(n, 1)
    try:
        from PIL import Image  # pyright: ignore
    except ImportError:
        raise RuleError("decoding images needs Pillow; install it with pip install pillow") from None
    form = n.text("pixel_format", "RGB")
    try:
        with Image.open(io.BytesIO(data.tobytes())) as picture:  # pyright: ignore
            if form == "Grayscale":
                return np.asarray(picture.convert("L"))[..., None]  # pyright: ignore
            pixels = np.asarray(picture.convert("RGB"))  # pyright: ignore
    except OSError:
        raise RuleError("the bytes are no picture that Pillow reads") from None
    return pixels[..., ::-1] if form == "BGR" else pixels


RULES: dict[str, Versions] = {
    "Unique": unique,
    "MaxRoiPool": max_roi_pool,
    "ImageDecoder": image_decoder,
}
