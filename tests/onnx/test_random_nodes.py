"""Random nodes of the data and reduction operators against onnxruntime, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from random_nodes import Node, Source, check_family

pytestmark = pytest.mark.slow

EACH = 8


def reduction(s: Source) -> Node:
    """A reduction over some axes."""
    op = s.rng.choice(["Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSumExp"])
    kinds = "float32 float64 int32" if op in ("Sum", "Mean", "Max", "Min") else "float32"
    x = s.array(s.shape(), kinds)
    axes = s.axes(x.ndim) if s.flag() else None
    attributes = {"keepdims": s.flag()}
    return Node("Reduce" + op, [x, axes], {1} if axes is not None else set(), attributes)


def slicing(s: Source) -> Node:
    """A slice with bounds far outside, both directions."""
    x = s.array(s.shape(), "float32 int32 int64 bool")
    axes = s.axes(x.ndim)
    count = len(axes)
    starts = s.numbers.integers(-8, 8, count)
    ends = np.array([s.rng.choice([-(2**62), 2**62, *range(-8, 8)]) for _ in range(count)], np.int64)
    steps = np.array([s.rng.choice([-3, -2, -1, 1, 2, 3]) for _ in range(count)], np.int64)
    return Node("Slice", [x, starts, ends, axes, steps], {1, 2, 3, 4})


def padding(s: Source) -> Node:
    """Padding of every mode, with negative pads for constants."""
    mode = s.rng.choice(["constant", "reflect", "edge", "wrap"])
    x = s.array(tuple(d + 2 for d in s.shape(largest=4)), "float32 int32")
    low = -1 if mode == "constant" else 0
    pads = s.numbers.integers(low, 3, 2 * x.ndim)
    if mode == "reflect":
        pads = np.minimum(pads, np.tile(x.shape, 2) - 1)
    value = np.array(3, x.dtype) if mode == "constant" and s.flag() else None
    known = {1} | ({2} if value is not None else set())
    return Node("Pad", [x, pads, value], known, {"mode": mode})


def gathering(s: Source) -> Node:
    """Gather, with an index of any rank, known or not."""
    x = s.array(s.shape(), "float32 int64 bool")
    axis = s.axis(x.ndim)
    indices = s.indices(s.shape(0, 2, 4), x.shape[axis])
    return Node("Gather", [x, indices], {1} if s.flag() else set(), {"axis": axis})


def gathering_elements(s: Source) -> Node:
    """GatherElements."""
    x = s.array(s.shape(), "float32 int32")
    axis = s.axis(x.ndim)
    shape = list(x.shape)
    shape[axis] = s.rng.randint(1, 7)
    return Node("GatherElements", [x, s.indices(tuple(shape), x.shape[axis])], set(), {"axis": axis})


def gathering_tuples(s: Source) -> Node:
    """GatherND, with and without batch axes."""
    x = s.array(s.shape(2, 4), "float32 int32")
    batch = s.rng.randint(0, x.ndim - 1)
    depth = s.rng.randint(1, x.ndim - batch)
    lead = (*x.shape[:batch], *s.shape(1, 2, 3))
    columns = [s.numbers.integers(-n, n, lead) for n in x.shape[batch : batch + depth]]
    return Node("GatherND", [x, np.stack(columns, -1).astype(np.int64)], set(), {"batch_dims": batch})


def scattering(s: Source) -> Node:
    """ScatterElements with a reduction; distinct places where the last would win."""
    x = s.array(s.shape(1, 3), "float32 int32")
    axis = s.axis(x.ndim)
    reduction_ = s.rng.choice(["none", "add", "mul", "max", "min"])
    indices = np.argsort(s.numbers.random(x.shape), axis).astype(np.int64)
    if reduction_ != "none":
        indices = s.numbers.integers(-x.shape[axis], x.shape[axis], x.shape)
    updates = s.array(x.shape, str(x.dtype))
    attributes = {"axis": axis, "reduction": reduction_}
    return Node("ScatterElements", [x, indices, updates], set(), attributes)


def scattering_tuples(s: Source) -> Node:
    """ScatterND with a reduction."""
    x = s.array(s.shape(1, 3), "float32 int32")
    depth = s.rng.randint(1, x.ndim)
    reduction_ = s.rng.choice(["add", "mul", "max", "min"])
    lead = s.shape(1, 2, 3)
    columns = [s.numbers.integers(-n, n, lead) for n in x.shape[:depth]]
    updates = s.array((*lead, *x.shape[depth:]), str(x.dtype))
    return Node(
        "ScatterND",
        [x, np.stack(columns, -1).astype(np.int64), updates],
        set(),
        {"reduction": reduction_},
    )


def top_k(s: Source) -> Node:
    """TopK, with ties among integers."""
    x = s.array(s.shape(), "float32 int32 int64")
    axis = s.axis(x.ndim)
    k = np.array([s.rng.randint(1, x.shape[axis])], np.int64)
    return Node("TopK", [x, k], {1}, {"axis": axis, "largest": s.flag()}, 2)


def arg_reduction(s: Source) -> Node:
    """ArgMax and ArgMin, first or last of equal elements."""
    x = s.array(s.shape(), "float32 int32 int8 uint8")
    attributes = {"axis": s.axis(x.ndim), "keepdims": s.flag(), "select_last_index": s.flag()}
    return Node(s.rng.choice(["ArgMax", "ArgMin"]), [x], set(), attributes)


def scanning(s: Source) -> Node:
    """CumSum, in its four forms."""
    x = s.array(s.shape(), "float32 float64 int32 int64")
    axis = np.array(s.axis(x.ndim), np.int64)
    return Node("CumSum", [x, axis], {1}, {"exclusive": s.flag(), "reverse": s.flag()})


def arithmetic(s: Source) -> Node:
    """Arithmetic that broadcasts."""
    op = s.rng.choice(["Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min"])
    shape = s.shape()
    other = tuple(1 if s.flag() else d for d in shape)[s.rng.randrange(len(shape)) :]
    kinds = "int32 int64" if op == "Mod" else "float32" if op == "Pow" else "float32 int32 int64"
    x = s.array(shape, kinds)
    y = s.array(other, str(x.dtype))
    if op in ("Div", "Mod"):
        y = np.where(y == 0, 3, y).astype(y.dtype)
    if op == "Pow":
        x, y = np.abs(x) + np.float32(0.1), y
    return Node(op, [x, y] if s.flag() or op in ("Div", "Mod", "Pow", "Sub") else [y, x])


def casting(s: Source) -> Node:
    """Cast between types that hold the values."""
    kinds = "float32 float64 float16 int8 int32 int64 bool"
    x = s.array(s.shape(), kinds)
    target = np.dtype(s.rng.choice(kinds.split()))
    return Node("Cast", [x], set(), {"to": helper.np_dtype_to_tensor_dtype(target)})


def moving(s: Source) -> Node:
    """Transpose, Tile, Expand, Concat, Trilu."""
    x = s.array(s.shape(2, 4), "float32 int32 int64")
    match s.rng.randrange(5):
        case 0:
            return Node("Transpose", [x], set(), {"perm": s.rng.sample(range(x.ndim), x.ndim)})
        case 1:
            return Node("Tile", [x, s.numbers.integers(1, 4, x.ndim)], {1})
        case 2:
            small = tuple(1 if s.flag() else d for d in x.shape)
            return Node("Expand", [s.array(small), np.array(x.shape, np.int64)], {1})
        case 3:
            axis = s.axis(x.ndim)
            return Node("Concat", [x, x[:1] if axis % x.ndim == 0 else x], set(), {"axis": axis})
        case _:
            k = np.array(s.rng.randint(-3, 3), np.int64)
            return Node("Trilu", [x, k], {1}, {"upper": s.flag()})


def resizing(s: Source) -> Node:
    """Resize to whole scales, where ONNX and onnxruntime agree."""
    x = s.array((1, 2, s.rng.choice([4, 6]), s.rng.choice([4, 6])))
    mode = s.rng.choice(["nearest", "linear", "cubic"])
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": s.rng.choice(["half_pixel", "asymmetric", "align_corners"]),
    }
    if mode == "nearest":
        attributes["coordinate_transformation_mode"] = s.rng.choice(["half_pixel", "asymmetric"])
        attributes["nearest_mode"] = s.rng.choice(["floor", "ceil", "round_prefer_floor"])
    if mode == "cubic":
        attributes["exclude_outside"] = s.flag()
    scales = np.array([1, 1, *(s.rng.choice([0.5, 2, 3]) for _ in range(2))], np.float32)
    return Node("Resize", [x, None, scales], {2}, attributes)


FAMILIES: dict[str, Callable[[Source], Node]] = {
    f.__name__: f
    for f in (
        reduction, slicing, padding, gathering, gathering_elements, gathering_tuples, scattering,
        scattering_tuples, top_k, arg_reduction, scanning, arithmetic, casting, moving, resizing,
    )
}  # fmt: skip


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_random_nodes(family: str, backend: str) -> None:
    """Shapes, types and values are onnxruntime's."""
    check_family(FAMILIES[family], EACH, backend, rtol=2e-5, atol=1e-5)
