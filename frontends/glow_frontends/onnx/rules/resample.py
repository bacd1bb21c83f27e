"""Rules of Resize and Upsample: target sizes from scales or sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpLeOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, NeedsValue, RuleError, Value, cast_to, rank, shape
from glow_frontends.graph.axes import axes_of
from glow_frontends.graph.resample import FLOAT, REAL, ROUNDINGS, Ratio, between, ratio_of, scaled_size, sized
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.run_time_slices import component


def resize(g: Emitter, n: Node) -> Value:
    """Resize of every version."""
    x = n[0]
    if n.opset < 11:
        return _simple(g, n, g.known(n[1], "the scales of Resize"))
    axes = axes_of(n.integers("axes") or range(rank(x)), rank(x))
    cropped = n.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    given_roi = n.get(1) if cropped else None
    scales = None if n.get(2) is None else g.known(n[2], "the scales of Resize").astype(np.float64)
    if scales is not None and scales.size == 0:
        scales = None
    sizes = None if n.get(3) is None else g.ints(n[3], "the sizes of Resize")
    if (scales is None) == (not sizes):
        raise RuleError("either scales or sizes are expected")
    whole = list(shape(x))
    ratios: list[Ratio] = [1.0] * rank(x)
    factors = scales if scales is not None else sizes
    assert factors is not None
    if len(factors) != len(axes):
        raise RuleError(f"{len(factors)} scales or sizes for {len(axes)} axes")
    if sizes:
        chosen, sizes = _from_sizes(n, [whole[a] for a in axes], sizes)
    else:
        assert scales is not None
        chosen = [float(s) for s in scales]
        sizes = [scaled_size(whole[a], s) for a, s in zip(axes, chosen, strict=True)]
    for axis, ratio, size in zip(axes, chosen, sizes, strict=True):
        ratios[axis], whole[axis] = ratio, size
    properties: dict[str, Any] = {
        "mode": _mode(n),
        "coordinate_transformation_mode": n.text("coordinate_transformation_mode", "half_pixel"),
        "nearest_mode": n.text("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": n.number("cubic_coeff_a", -0.75),
        "exclude_outside": n.flag("exclude_outside"),
        "antialias": n.flag("antialias"),
        "extrapolation_value": n.number("extrapolation_value", 0.0),
    }
    roi = given_roi
    if isinstance(roi, SSAValue) or (roi is not None and is_open((*shape(x), *sizes))):
        return _cropped(g, x, roi, axes, sizes, properties)
    if roi is not None and roi.size == 2 * len(axes):
        begins, ends = [0.0] * rank(x), [1.0] * rank(x)
        for index, axis in enumerate(axes):
            begins[axis], ends[axis] = float(roi[index]), float(roi[index + len(axes)])
        properties["roi"] = (*begins, *ends)
    return sized(g, x, whole, ratios, **properties)


def _cropped(
    g: Emitter, x: Value, roi: Value, axes: Sequence[int], sizes: Sequence[int], options: dict[str, Any]
) -> Value:
    """tf_crop_and_resize of a region or of sizes that only the run tells, axis by axis."""
    nearest = options["mode"] == "nearest" and options["nearest_mode"] not in ROUNDINGS
    if nearest or options["antialias"] or len(set(axes)) < len(axes):
        raise NeedsValue(roi if isinstance(roi, SSAValue) else None, "the region of Resize")
    inside: Value = np.array(True)
    for index, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        begin, end = (cast_to(g, component(g, roi, i), FLOAT) for i in (index, index + len(axes)))
        known = isinstance(begin, np.ndarray) and isinstance(end, np.ndarray)
        if known and (begin, end) == (0, 1) and are_equal(size, shape(x)[axis]):
            continue
        last = g.size(shape(x)[axis] - 1, FLOAT)
        places = _places(g, begin, end, size, last)
        along = (size, *(1,) * (rank(x) - axis - 1))
        fits = g(AndOp, g(CmpGeOp, places, _real(0)), g(CmpLeOp, places, last))
        inside = g(AndOp, inside, g.reshape(fits, along))
        x = between(g, x, axis, places, last, options)
    return g(SelectOp, inside, x, g.like(options["extrapolation_value"], x))


def _places(g: Emitter, begin: Value, end: Value, size: int, last: Value) -> Value:
    """Where `size` places of a region from `begin` to `end` lie on an axis up to `last`."""
    if size == 1:
        return g.reshape(g(MulOp, g(AddOp, begin, end), g(MulOp, last, _real(0.5))), (1,))
    step = g(DivOp, cast_to(g, last, REAL), g.size(size - 1, REAL))
    steps = cast_to(g, g(MulOp, g.numbers(size, REAL), step), FLOAT)
    return g(AddOp, g(MulOp, begin, last), g(MulOp, steps, g(SubOp, end, begin)))


def _real(number: float) -> np.ndarray:
    return np.array(number, np.float32)


def _mode(n: Node) -> str:
    mode: str = n.text("mode", "nearest")
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


def _from_sizes(n: Node, dims: Sequence[int], sizes: Sequence[int]) -> tuple[Sequence[Ratio], list[int]]:
    """Scales and final sizes under the node's policy on the aspect ratio."""
    ratios = [ratio_of(s, d) for s, d in zip(sizes, dims, strict=True)]
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return ratios, list(sizes)
    if not is_open((*sizes, *dims)):
        known = [r for r in ratios if not isinstance(r, tuple)]
        ratio = min(known) if policy == "not_larger" else max(known)
        return [ratio] * len(dims), [int(np.floor(ratio * d + 0.5)) for d in dims]
    top, bottom = sizes[0], dims[0]
    for size, before in zip(sizes[1:], dims[1:], strict=True):
        smaller = size * bottom < top * before
        if smaller == (policy == "not_larger"):
            top, bottom = size, before
    ratio = (top, bottom) if is_open((top, bottom)) else top / bottom
    return [ratio] * len(dims), [
        top if are_equal(d, bottom) else (2 * top * d + bottom) // (2 * bottom) for d in dims
    ]


def _simple(g: Emitter, n: Node, scales: np.ndarray) -> Value:
    """Before opset 11: places are index / scale, rounded down."""
    x = n[0]
    if scales.size != rank(x):
        raise RuleError(f"{scales.size} scales for {rank(x)} axes")
    sizes = [scaled_size(d, float(s)) for d, s in zip(shape(x), scales.reshape(-1), strict=True)]
    return sized(
        g,
        x,
        sizes,
        [float(s) for s in scales.reshape(-1)],
        mode=_mode(n),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def upsample(g: Emitter, n: Node) -> Value:
    """Upsample: Resize before it had a name; version 1 scales height and width."""
    if n.has("height_scale"):
        return _simple(g, n, np.array([1.0, 1.0, n.number("height_scale"), n.number("width_scale")]))
    scales = np.array(n.numbers("scales")) if n.opset < 9 else g.known(n[1], "the scales of Upsample")
    return _simple(g, n, scales)


RULES: dict[str, Versions] = {"Resize": resize, "Upsample": upsample}
