"""Rules of sampling at computed positions: GridSample, RoiAlign, DeformConv."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import tensor
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, ModOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, FloorOp, RoundOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.indexing import in_range, take
from glow_frontends.onnx.rules.nn import product
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.shape import cut, join
from glow_frontends.onnx.rules.windows import Window, window_of
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape, type_of

INT64 = np.dtype(np.int64)
#: One axis of a sample: positions and weights (None = 1), each like the coordinates.
Taps = list[tuple[Value, "Value | None"]]


def last(g: Emitter, x: Value, index: int) -> Value:
    """x[..., index]."""
    begin, end = [0] * rank(x), list(shape(x))
    begin[-1], end[-1] = index, index + 1
    return g.reshape(cut(g, x, begin, end), shape(x)[:-1])


def gather_points(g: Emitter, x: Value, taps: Sequence[Taps], fill: bool) -> Value:
    """Sums of weighted elements: x [N, C, *S], taps of positions [N, P] for each axis of S -> [N, C, P].

    Positions are floats that hold integers; outside ones read 0 where `fill`, else the border. What is no
    number has an element, and the weight that followed from it.
    """
    count, channels = shape(x)[:2]
    sizes = shape(x)[2:]
    flat = g.reshape(x, (count, channels, prod(sizes)))
    total: Value | None = None
    for combination in itertools.product(*taps):
        index: Value | None = None
        weight: Value | None = None
        for size, (position, factor) in zip(sizes, combination, strict=True):
            place = cast_to(g, _clipped(g, _finite(g, position), size), INT64)
            index = place if index is None else g(AddOp, g(MulOp, index, g.size(size, INT64)), place)
            if factor is not None:
                weight = factor if weight is None else g(MulOp, weight, factor)
            if fill:
                inside = within(g, position, 0, size - 1)
                kept = cast_to(g, inside, dtype_of_value(x))
                weight = kept if weight is None else g(MulOp, weight, kept)
        assert index is not None
        points = shape(index)[1]
        wide = g.reshape(index, (count, 1, points))
        wide = g(ExpandOp, wide, results=tensor((count, channels, points), type_of(wide).element_type))
        part = g(GatherElementsOp, flat, wide, axis=2)
        if weight is not None:
            part = g(MulOp, part, g.reshape(weight, (count, 1, points)))
        total = part if total is None else g(AddOp, total, part)
    assert total is not None
    return total


def within(g: Emitter, x: Value, low: int, high: int) -> Value:
    """Whether each element lies in [low, high]."""
    return g(AndOp, g(CmpGeOp, x, g.like(low, x)), g(CmpLeOp, x, g.size(high, dtype_of_value(x))))


def _clipped(g: Emitter, x: Value, size: int) -> Value:
    """The nearest coordinates that lie on an axis."""
    if not is_open((size,)):
        return g(ClipOp, x, min=0.0, max=float(size - 1))
    return g(MinOp, g(MaxOp, x, g.like(0, x)), g.size(size - 1, dtype_of_value(x)))


def nearest_tap(g: Emitter, x: Value) -> Taps:
    """The nearest place of each coordinate."""
    return [(g(RoundOp, x), None)]


def linear_taps(g: Emitter, x: Value) -> Taps:
    """The two neighbours of each coordinate."""
    low = g(FloorOp, x)
    upper = g(SubOp, x, low)
    one = g.like(1, x)
    return [(low, g(SubOp, one, upper)), (g(AddOp, low, one), upper)]


def cubic_taps(g: Emitter, x: Value, a: float = -0.75) -> Taps:
    """The four neighbours of each coordinate, weighted by Keys' kernel."""
    low = g(FloorOp, x)
    t = g(SubOp, x, low)
    out: Taps = []
    for offset in (-1, 0, 1, 2):
        d = g(AbsOp, g(SubOp, t, g.like(offset, t)))
        coefficients = (a + 2, -(a + 3), 0.0, 1.0) if offset in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        weight: Value = g.like(coefficients[0], d)
        for c in coefficients[1:]:
            weight = g(AddOp, g(MulOp, weight, d), g.like(c, d))
        out.append((g(AddOp, low, g.like(offset, low)), weight))
    return out


def grid_sample(g: Emitter, n: Node) -> Value:
    """GridSample."""
    mode_of_node: str = n.text("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode_of_node, mode_of_node)
    return grid_sampled(g, n[0], n[1], mode, n.text("padding_mode", "zeros"), n.flag("align_corners"))


def grid_sampled(g: Emitter, x: Value, grid: Value, mode: str, padding: str, aligned: bool) -> Value:
    """Linear, nearest or cubic samples at the places of a grid, with zeros, border or reflection outside."""
    dtype = dtype_of_value(x)
    grid = cast_to(g, grid, dtype)
    sizes, axes = shape(x)[2:], rank(x) - 2
    if axes < 1 or rank(grid) != rank(x) or shape(grid)[-1] != axes or shape(grid)[0] != shape(x)[0]:
        raise RuleError(f"a grid of shape {shape(grid)} for a tensor of shape {shape(x)}")
    points = shape(grid)[1:-1]
    flat = g.reshape(grid, (shape(grid)[0], prod(points), axes))
    taps: list[Taps] = []
    for axis in range(axes):
        size = sizes[axis]
        where = _pixels(g, last(g, flat, axes - 1 - axis), size, aligned)
        if padding == "reflection" and mode != "cubic":
            where = _reflected(g, where, size, aligned)
        if padding in ("border", "reflection") and mode != "cubic":
            where = _finite(g, _clipped(g, where, size))
        taps.append(_taps(g, where, mode))
        if padding == "reflection" and mode == "cubic":
            taps[-1] = [(g(RoundOp, _reflected(g, p, size, aligned)), w) for p, w in taps[-1]]
    y = gather_points(g, x, taps, padding == "zeros")
    return g.reshape(y, (*shape(x)[:2], *points))


def _finite(g: Emitter, where: Value) -> Value:
    """Coordinates, 0 in place of NaN and infinity."""
    real = g(CmpLtOp, g(AbsOp, where), g.like(np.inf, where))
    return g(SelectOp, real, where, g.like(0, where))


def _taps(g: Emitter, where: Value, mode: str) -> Taps:
    if mode == "nearest":
        return nearest_tap(g, where)
    if mode == "linear":
        return linear_taps(g, where)
    if mode == "cubic":
        return cubic_taps(g, where)
    raise RuleError(f"mode '{mode}' is unknown")


def _pixels(g: Emitter, x: Value, size: int, aligned: bool) -> Value:
    """Pixel coordinates of [-1, 1]."""
    up, half = g(AddOp, x, g.like(1, x)), g.like(0.5, x)
    places = g(MulOp, up, g(MulOp, g.size(size - 1 if aligned else size, dtype_of_value(x)), half))
    return places if aligned else g(SubOp, places, half)


def _reflected(g: Emitter, x: Value, size: int, aligned: bool) -> Value:
    """x mirrored at the centres of the first and the last pixel, or at their outer edges, until it lies
    between."""
    low, width = (0.0, size - 1) if aligned else (-0.5, size)
    if width <= 0:
        return g(MulOp, x, g.like(0, x))
    span, twice = (g.size(n, dtype_of_value(x)) for n in (width, 2 * width))
    away = g(AbsOp, g(SubOp, x, g.like(low, x)))
    rest = g(ModOp, away, twice)
    folded = g(SelectOp, g(CmpGtOp, rest, span), g(SubOp, twice, rest), rest)
    return g(AddOp, folded, g.like(low, x))


def roi_align(g: Emitter, n: Node) -> Value:
    """RoiAlign; a sampling ratio of 0 (as many points as the region has pixels) wants known regions."""
    x, rois, batches = n[0], n[1], n[2]
    height, width = n.integer("output_height", 1), n.integer("output_width", 1)
    if rank(x) != 4 or rank(rois) != 2 or shape(rois)[1] != 4 or shape(batches) != shape(rois)[:1]:
        raise RuleError("expected a tensor [N, C, H, W], regions [R, 4] and their batch indices [R]")
    batches = in_range(g, n, batches, 0, shape(x)[0] - 1, "a batch index")
    scale, ratio = n.number("spatial_scale", 1.0), n.integer("sampling_ratio", 0)
    default = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    half = n.text("coordinate_transformation_mode", default) == "half_pixel"
    corners = g(MulOp, rois, g.like(scale, rois))
    if half:
        corners = g(SubOp, corners, g.like(0.5, corners))
    count = shape(rois)[0]
    mode = n.text("mode", "avg")
    if ratio > 0:
        return _align(g, x, corners, batches, (height, width), (ratio, ratio), half, mode)
    known = g.known(corners, "the number of samples of RoiAlign")
    rows: list[Value] = []
    for index in range(count):
        spans = known[index, 2:] - known[index, :2]
        if not half:
            spans = np.maximum(spans, 1.0)
        samples = _samples(spans[1] / height), _samples(spans[0] / width)
        if 0 in samples:
            rows.append(_zeros(g, (1, shape(x)[1], height, width), x))
            continue
        batch = cut(g, batches, [index], [index + 1])
        rows.append(_align(g, x, known[index : index + 1], batch, (height, width), samples, half, mode))
    return join(g, rows, 0) if rows else _zeros(g, (0, shape(x)[1], height, width), x)


def _samples(size: float) -> int:
    """Places a cell along an axis: none where it has no size, or none that is a finite number."""
    return max(0, int(np.ceil(size))) if np.isfinite(size) else 0


def _zeros(g: Emitter, size: Sequence[int], like: Value) -> Value:
    return g(ExpandOp, g.like(0, like), results=tensor(size, type_of(like).element_type))


def _align(
    g: Emitter,
    x: Value,
    corners: Value,
    batches: Value,
    out: tuple[int, int],
    samples: tuple[int, int],
    half: bool,
    mode: str,
) -> Value:
    """Regions [R, 4] of equal sample counts -> [R, C, *out]."""
    count, channels = shape(corners)[0], shape(x)[1]
    places: list[Value] = []
    for axis in (1, 0):
        low, high = last(g, corners, axis), last(g, corners, axis + 2)
        span = g(SubOp, high, low)
        if not half:
            span = g(MaxOp, span, g.like(1, span))
        cells, points = out[1 - axis], samples[1 - axis]
        steps = ((np.arange(cells * points) + 0.5) / points).astype(dtype_of_value(x))
        cell = g(DivOp, g.reshape(span, (count, 1)), g.like(cells, span))
        places.append(g(AddOp, g(MulOp, cell, steps), g.reshape(low, (count, 1))))
    rows, columns = shape(places[0])[1], shape(places[1])[1]
    whole = tensor((count, rows, columns), type_of(x).element_type)
    vertical = g(ExpandOp, g.reshape(places[0], (count, rows, 1)), results=whole)
    horizontal = g(ExpandOp, g.reshape(places[1], (count, 1, columns)), results=whole)
    picked = take(g, x, cast_to(g, batches, INT64), 0)
    taps: list[Taps] = []
    keep: Value | None = None
    for where, size in zip((vertical, horizontal), shape(x)[2:], strict=True):
        flat = g.reshape(where, (count, rows * columns))
        inside = within(g, flat, -1, size)
        keep = inside if keep is None else g(AndOp, keep, inside)
        flat = g(SelectOp, inside, flat, g.like(0, flat))  # which may be no number
        taps.append(linear_taps(g, _clipped(g, flat, size)))
    assert keep is not None
    mask = g.reshape(keep, (count, 1, rows * columns))
    if mode == "max":
        values = _largest_corner(g, picked, taps)
    else:
        values = gather_points(g, picked, taps, False)
    values = g(SelectOp, mask, values, g.like(0, values))
    cells = (count, channels, out[0], samples[0], out[1], samples[1])
    kind = ReduceMaxOp if mode == "max" else ReduceMeanOp
    return g(kind, g.reshape(values, cells), axes=(3, 5), keepdims=False)


def _largest_corner(g: Emitter, x: Value, taps: Sequence[Taps]) -> Value:
    """The largest weighted neighbour, as RoiAlign's maximum is defined."""
    best: Value | None = None
    for combination in itertools.product(*taps):
        part = gather_points(g, x, [[tap] for tap in combination], False)
        best = part if best is None else g(MaxOp, best, part)
    assert best is not None
    return best


def deform_conv(g: Emitter, n: Node) -> Value:
    """DeformConv: samples at offset positions, then a matrix product."""
    x, w, offset, bias, mask = n[0], n[1], n[2], n.get(3), n.get(4)
    window = window_of(n, shape(x)[2:], shape(w)[2:])
    count, channels = shape(x)[:2]
    outs = shape(offset)[2:]
    kernel = window.kernel
    points = prod(kernel)
    groups, parts = n.integer("group", 1), n.integer("offset_group", 1)
    axes = len(kernel)
    dims = (count, parts, points, axes, *outs)
    moves = g.reshape(offset, dims)
    taps: list[Taps] = []
    for axis in range(axes):
        begin, end = [0] * len(dims), list(dims)
        begin[3], end[3] = axis, axis + 1
        move = g.reshape(cut(g, moves, begin, end), (count * parts, points, *outs))
        where = g(AddOp, move, _base(g, window, axis, outs, dtype_of_value(x)))
        taps.append(linear_taps(g, g.reshape(where, (count * parts, points * prod(outs)))))
    grouped = g.reshape(x, (count * parts, channels // parts, *shape(x)[2:]))
    values = gather_points(g, grouped, taps, True)
    area = prod(outs)
    values = g.reshape(values, (count, parts, channels // parts, points, area))
    if mask is not None:
        values = g(MulOp, values, g.reshape(mask, (count, parts, 1, points, area)))
    filters = shape(w)[0]
    columns = g.reshape(values, (count, groups, channels // groups * points, area))
    matrix = g.reshape(w, (1, groups, filters // groups, channels // groups * points))
    y = g.reshape(product(g, matrix, columns), (count, filters, *outs))
    return y if bias is None else g(AddOp, y, g.reshape(bias, (1, filters, *(1,) * axes)))


def _base(g: Emitter, window: Window, axis: int, outs: Sequence[int], dtype: np.dtype) -> Value:
    """Where the kernel's taps lie along `axis` without offsets: [1, points, ...], for *outs."""
    taps = np.indices(window.kernel)[axis].reshape(-1) * window.dilations[axis]
    starts = g(MulOp, g.numbers(outs[axis]), np.array(window.strides[axis]))
    starts = g(SubOp, starts, g.size(window.pads[axis], INT64))
    dims = [1] * len(outs)
    dims[axis] = outs[axis]
    grid = g(AddOp, taps.reshape(1, -1, *(1,) * len(outs)), g.reshape(starts, (1, 1, *dims)))
    return cast_to(g, grid, dtype)


RULES: dict[str, Versions] = {
    "DeformConv": deform_conv,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
}
