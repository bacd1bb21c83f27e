"""Rules of operators whose result's size depends on data: they run on the host, on NumPy arrays."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.rule import Versions, axis_of


def inputs_of(n: Node, count: int) -> list[Any]:
    """The first `count` inputs as arrays, None where absent; the very first must be there."""
    known = known_inputs(n)
    if not known or known[0] is None:
        raise RuleError("input 0 is missing")
    return [known[i] if i < len(known) else None for i in range(count)]


def non_zero(g: Emitter, n: Node) -> Array:
    """NonZero: indices of the non-zero elements, one column each."""
    del g
    (x,) = inputs_of(n, 1)
    return np.array(np.nonzero(np.atleast_1d(x)), dtype=np.int64)


def compress(g: Emitter, n: Node) -> Array:
    """Compress: slices whose condition is true."""
    del g
    x, condition = inputs_of(n, 2)
    if not n.has("axis"):
        flat = x.reshape(-1)
        return flat[: condition.size][condition]
    axis = axis_of(n.integer("axis"), x.ndim)
    return np.compress(condition, x, axis)


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


def non_max_suppression(g: Emitter, n: Node) -> Array:
    """NonMaxSuppression: (batch, class, box) of the boxes kept, by falling score."""
    del g
    boxes, scores, limit, overlap, threshold = inputs_of(n, 5)
    most = 0 if limit is None else int(limit.reshape(-1)[0])
    overlap = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    corners = _corners(boxes, n.flag("center_point_box"))
    kept: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        for kind in range(scores.shape[1]):
            row = scores[batch, kind]
            order = np.argsort(-row, kind="stable")
            if threshold is not None:
                order = order[row[order] > threshold.reshape(-1)[0]]
            kept += [(batch, kind, int(i)) for i in _suppress(corners[batch], order, most, overlap)]
    return np.array(kept, dtype=np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as (low, low, high, high)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        return np.concatenate([first - second / 2, first + second / 2], -1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _suppress(corners: Array, order: Array, most: int, overlap: float) -> list[int]:
    chosen: list[int] = []
    area = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    while order.size and len(chosen) < most:
        best, order = int(order[0]), order[1:]
        chosen.append(best)
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[order] - shared
        order = order[np.divide(shared, union, out=np.zeros_like(shared), where=union > 0) <= overlap]
    return chosen


def max_roi_pool(g: Emitter, n: Node) -> Array:
    """MaxRoiPool: the maximum of each cell of regions (batch, left, top, right, bottom)."""
    del g
    x, rois = inputs_of(n, 2)
    height, width = n.integers("pooled_shape")
    scaled = np.rint(rois[:, 1:] * n.number("spatial_scale", 1.0)).astype(int)
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
    with Image.open(io.BytesIO(data.tobytes())) as picture:  # pyright: ignore
        if form == "Grayscale":
            return np.asarray(picture.convert("L"))[..., None]  # pyright: ignore
        pixels = np.asarray(picture.convert("RGB"))  # pyright: ignore
    return pixels[..., ::-1] if form == "BGR" else pixels


RULES: dict[str, Versions] = {
    "NonZero": non_zero,
    "Compress": compress,
    "Unique": unique,
    "MaxRoiPool": max_roi_pool,
    "NonMaxSuppression": non_max_suppression,
    "ImageDecoder": image_decoder,
}
