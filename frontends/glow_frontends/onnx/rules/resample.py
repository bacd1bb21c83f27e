"""Rules of Resize and Upsample: on each axis a few weighted taps at positions known from the shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.onnx.emitter import Emitter, check_size
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.index import take
from glow_frontends.onnx.rules.nn import product
from glow_frontends.onnx.rules.rule import Versions, axes_of
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape

#: Axes with more taps are products with a matrix.
MAX_TAPS = 4


@dataclass(frozen=True)
class Options:
    """How coordinates and weights are made; the attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class Taps:
    """For each output position: `indices` and `weights` [out, taps], and whether it lies `outside`."""

    indices: Array
    weights: Array
    outside: Array


def taps_of(size: int, out: int, scale: float, roi: tuple[float, float], o: Options) -> Taps:
    """The taps of one axis of `size` elements resized to `out`."""
    position = original(np.arange(out, dtype=np.float64), size, out, scale, roi, o.coordinates)
    crop = o.coordinates == "tf_crop_and_resize"
    outside = ((position < 0) | (position > size - 1)) & crop
    if o.mode == "nearest":
        index = np.clip(_round(position, o.rounding), 0, size - 1).astype(np.int64)
        return Taps(index[:, None], np.ones((out, 1)), outside)
    stretch = max(1.0, 1.0 / scale) if o.antialias else 1.0
    reach = (2.0 if o.mode == "cubic" else 1.0) * stretch
    first = np.floor(position - reach).astype(np.int64) + 1
    count = int(np.ceil(2 * reach)) if stretch == 1.0 else int(np.ceil(2 * reach)) + 1
    raw = first[:, None] + np.arange(count)
    distance = (raw - position[:, None]) / stretch
    weights = _cubic(distance, o.cubic) if o.mode == "cubic" else np.maximum(0, 1 - np.abs(distance))
    if o.exclude_outside or o.antialias:
        inside = (raw >= 0) & (raw < size)
        weights = np.where(inside, weights, 0.0) if o.exclude_outside or o.mode == "linear" else weights
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return Taps(np.clip(raw, 0, size - 1), weights, outside)


def original(
    x: Array, size: int, out: int, scale: float, roi: tuple[float, float], coordinates: str
) -> Array:
    """Where output positions `x` lie in the input."""
    start, end = roi
    match coordinates:
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjustment = out / (scale * size)
            centre = size / 2
            return centre * (1 - adjustment) + (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if out > 1 else np.zeros_like(x)
        case "align_corners":
            return x * (size - 1) / (out - 1) if out > 1 else np.zeros_like(x)
        case "asymmetric":
            return x / scale
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "tf_crop_and_resize":
            if out > 1:
                return start * (size - 1) + x * (end - start) * (size - 1) / (out - 1)
            return np.full_like(x, 0.5 * (start + end) * (size - 1))
        case _:
            raise RuleError(f"coordinate_transformation_mode '{coordinates}' is unknown")


def _round(x: Array, how: str) -> Array:
    match how:
        case "round_prefer_floor":
            return np.ceil(x - 0.5)
        case "round_prefer_ceil":
            return np.floor(x + 0.5)
        case "floor":
            return np.floor(x)
        case "ceil":
            return np.ceil(x)
        case _:
            raise RuleError(f"nearest_mode '{how}' is unknown")


def _cubic(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def apply(g: Emitter, x: Value, taps: Taps, axis: int, o: Options) -> Value:
    """Resize one axis."""
    size, dtype = shape(x)[axis], dtype_of_value(x)
    count = taps.indices.shape[1]
    identity = count == 1 and np.array_equal(taps.indices[:, 0], np.arange(size))
    if identity and not taps.outside.any():
        return x
    if count == 1:
        y = take(g, x, taps.indices[:, 0], axis)
    elif count <= MAX_TAPS:
        y = _weighted(g, x, taps, axis)
    else:
        matrix = np.zeros((taps.indices.shape[0], size))
        np.add.at(matrix, (np.arange(len(matrix))[:, None], taps.indices), taps.weights)
        order = [i for i in range(rank(x)) if i != axis] + [axis]
        moved = product(g, g.transpose(x, order), np.ascontiguousarray(matrix.T).astype(dtype))
        y = g.transpose(moved, [order.index(i) for i in range(rank(x))])
    if taps.outside.any():
        dims = [1] * rank(x)
        dims[axis] = taps.outside.size
        y = g(SelectOp, taps.outside.reshape(dims), g.like(o.extrapolation, y), y)
    return y


def _weighted(g: Emitter, x: Value, taps: Taps, axis: int) -> Value:
    dims = [1] * rank(x)
    dims[axis] = taps.indices.shape[0]
    total: Value | None = None
    for column in range(taps.indices.shape[1]):
        weights = taps.weights[:, column]
        if not weights.any():
            continue
        part = take(g, x, np.ascontiguousarray(taps.indices[:, column]), axis)
        part = g(MulOp, part, weights.astype(dtype_of_value(x)).reshape(dims))
        total = part if total is None else g(AddOp, total, part)
    assert total is not None
    return total


def resize(g: Emitter, n: Node) -> Value:
    """Resize of every version: target sizes from scales or sizes."""
    x = n[0]
    if n.opset < 11:
        return _resized(g, x, g.known(n[1], "the scales of Resize"), Options(_mode(n), "asymmetric", "floor"))
    options = Options(
        _mode(n),
        n.text("coordinate_transformation_mode", "half_pixel"),
        n.text("nearest_mode", "round_prefer_floor"),
        n.number("cubic_coeff_a", -0.75),
        n.flag("exclude_outside"),
        n.flag("antialias"),
        n.number("extrapolation_value", 0.0),
    )
    axes = axes_of(n.integers("axes") or range(rank(x)), rank(x))
    roi = None if n.get(1) is None else g.known(n[1], "the region of Resize")
    scales = None if n.get(2) is None else g.known(n[2], "the scales of Resize").astype(np.float64)
    if scales is not None and scales.size == 0:
        scales = None
    sizes = None if n.get(3) is None else g.ints(n[3], "the sizes of Resize")
    if (scales is None) == (not sizes):
        raise RuleError("either scales or sizes are expected")
    if sizes:
        scales, sizes = _from_sizes(n, [shape(x)[a] for a in axes], sizes)
    assert scales is not None
    return _resized(g, x, scales, options, axes, sizes, roi)


def _mode(n: Node) -> str:
    mode = n.text("mode", "nearest")
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


def _from_sizes(n: Node, dims: Sequence[int], sizes: Sequence[int]) -> tuple[Array, tuple[int, ...]]:
    ratios = np.array([s / d for s, d in zip(sizes, dims, strict=True)])
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return ratios, tuple(sizes)
    ratio = ratios.min() if policy == "not_larger" else ratios.max()
    kept = tuple(int(np.floor(ratio * d + 0.5)) for d in dims)
    return np.full(len(dims), ratio), kept


def _resized(
    g: Emitter,
    x: Value,
    scales: Array,
    o: Options,
    axes: Sequence[int] | None = None,
    sizes: Sequence[int] | None = None,
    roi: Array | None = None,
) -> Value:
    axes = tuple(range(rank(x))) if axes is None else axes
    if scales.size != len(axes):
        raise RuleError(f"{scales.size} scales for {len(axes)} axes")
    if o.mode not in ("nearest", "linear", "cubic"):
        raise RuleError(f"mode '{o.mode}' is unknown")
    dims = list(shape(x))
    plan: list[tuple[int, Taps]] = []
    for index, axis in enumerate(axes):
        scale = float(scales.reshape(-1)[index])
        if scale <= 0:
            raise RuleError("scales must be positive")
        size = dims[axis]
        out = sizes[index] if sizes else int(np.floor(size * scale + 1e-9))
        dims[axis] = out
        region = (0.0, 1.0)
        if roi is not None and roi.size == 2 * len(axes):
            region = (float(roi[index]), float(roi[index + len(axes)]))
        if out == size and scale == 1.0 and o.coordinates != "tf_crop_and_resize":
            continue
        plan.append((axis, taps_of(size, out, scale, region, o)))
    check_size(dims)
    dtype = dtype_of_value(x)
    wide = cast_to(g, x, np.dtype(np.float32)) if dtype.kind in "iu" and o.mode != "nearest" else x
    for axis, taps in plan:
        wide = apply(g, wide, taps, axis, o)
    return cast_to(g, wide, dtype)


def upsample(g: Emitter, n: Node) -> Value:
    """Upsample: Resize before it had a name."""
    scales = np.array(n.numbers("scales")) if n.opset < 9 else g.known(n[1], "the scales of Upsample")
    return _resized(g, n[0], scales.astype(np.float64), Options(_mode(n), "asymmetric", "floor"))


RULES: dict[str, Versions] = {"Resize": resize, "Upsample": upsample}
