"""Rules of sampling at computed positions: GridSample, RoiAlign, DeformConv."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np

from glow_dialects.core.types import tensor
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape, type_of
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import cut, element, join, span, take
from glow_frontends.graph.sampling import (
    INT64,
    Taps,
    clipped,
    gather_points,
    grid_sampled,
    linear_taps,
    within,
)
from glow_frontends.graph.windows import Window
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.indexing import in_range
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.windows import window_of


def grid_sample(g: Emitter, n: Node) -> Value:
    """GridSample."""
    mode_of_node: str = n.text("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode_of_node, mode_of_node)
    return grid_sampled(g, n[0], n[1], mode, n.text("padding_mode", "zeros"), n.flag("align_corners"))


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
        samples = max(1, int(np.ceil(spans[1] / height))), max(1, int(np.ceil(spans[0] / width)))
        batch = cut(g, batches, [index], [index + 1])
        rows.append(_align(g, x, known[index : index + 1], batch, (height, width), samples, half, mode))
    return join(g, rows, 0)


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
        low, high = element(g, corners, -1, axis), element(g, corners, -1, axis + 2)
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
        taps.append(linear_taps(g, clipped(g, flat, size)))
    assert keep is not None
    mask = g.reshape(cast_to(g, keep, dtype_of_value(x)), (count, 1, rows * columns))
    if mode == "max":
        values = _largest_corner(g, picked, taps)
    else:
        values = gather_points(g, picked, taps, False)
    values = g(MulOp, values, mask)
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
        move = g.reshape(span(g, moves, 3, axis, axis + 1), (count * parts, points, *outs))
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
