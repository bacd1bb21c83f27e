"""Values of reductions (exact sums of Python) and of resize (onnxruntime)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from card_runner import apply
from onnx import helper

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops import reduce
from glow_dialects.ops.resize import ResizeOp

FORMULAS: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda v: math.fsum(v) / len(v),
    "max": max,
    "min": min,
    "prod": math.prod,
    "sum_square": lambda v: math.fsum(x * x for x in v),
    "l1": lambda v: math.fsum(map(abs, v)),
    "l2": lambda v: math.sqrt(math.fsum(x * x for x in v)),
    "log_sum": lambda v: math.log(math.fsum(v)),
    "log_sum_exp": lambda v: math.log(math.fsum(map(math.exp, v))),
}


def op_of(name: str) -> type[GraphOp]:
    """The node class of a reduction."""
    return getattr(reduce, "Reduce" + "".join(p.capitalize() for p in name.split("_")) + "Op")


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_reductions(name: str, kind: str) -> None:
    """Each result from its own elements, with and without kept axes."""
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    x = np.random.default_rng(0).uniform(0.2, 1.5, (3, 4, 5)).astype(dtype)
    expected = np.array([FORMULAS[name]([float(v) for v in x[:, j].flat]) for j in range(4)])
    made = apply(op_of(name), x, axes=(0, 2))
    kept = apply(op_of(name), x, axes=(2, 0), keepdims=True)
    assert made.dtype == dtype and made.shape == (4,) and kept.shape == (1, 4, 1)
    tolerance = 2 * float(ml_dtypes.finfo(dtype).eps)
    scale = max(tolerance, 1e-15)
    np.testing.assert_allclose(made.astype(np.float64), expected, rtol=scale, atol=scale)
    np.testing.assert_array_equal(kept.reshape(4), made)


WHOLE: dict[str, Callable[[list[int]], int]] = {
    "sum": sum,
    "mean": lambda v: math.trunc(Fraction(sum(v), len(v))),
    "max": max,
    "min": min,
    "prod": math.prod,
    "sum_square": lambda v: sum(x * x for x in v),
    "l1": lambda v: sum(map(abs, v)),
}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("name", sorted(WHOLE))
def test_integers_wrap(name: str, kind: str) -> None:
    """Sums and products in the element type."""
    rng = np.random.default_rng(0)
    x = rng.integers(0 if kind.startswith("u") else -9, 9, (6, 7)).astype(kind)
    expected = [WHOLE[name]([int(v) for v in row]) for row in x]
    wrap = 1 << (8 * x.dtype.itemsize)
    made = apply(op_of(name), x, axes=(1,))
    assert made.dtype == x.dtype
    assert [int(v) % wrap for v in made] == [v % wrap for v in expected]


def test_reductions_of_nothing() -> None:
    """The neutral element."""
    x = np.zeros((2, 0, 3), np.float32)
    expected = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf, "l2": 0, "log_sum_exp": -math.inf}
    for name, value in expected.items():
        np.testing.assert_array_equal(apply(op_of(name), x, axes=(1,)), np.full((2, 3), value))
    whole = np.zeros((0,), np.int8)
    assert apply(op_of("max"), whole, axes=(0,)) == -128
    assert apply(op_of("min"), whole, axes=(0,)) == 127
    flags = np.zeros((2, 0), bool)
    assert apply(op_of("max"), flags, axes=(1,)).tolist() == [False, False]
    assert apply(op_of("min"), flags, axes=(1,)).tolist() == [True, True]


def test_log_sum_exp_does_not_overflow() -> None:
    """Large, and infinite."""
    x = np.array([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    expected = [1000 + math.log(2), -1000 + math.log(2), -math.inf, math.inf]
    np.testing.assert_allclose(apply(op_of("log_sum_exp"), x, axes=(1,)), expected, rtol=1e-6)


def test_nan_is_an_extreme() -> None:
    """Maximum and minimum of a row with a NaN."""
    x = np.array([[1, np.nan, 2]], np.float32)
    assert np.isnan(apply(op_of("max"), x, axes=(1,))).all()
    assert np.isnan(apply(op_of("min"), x, axes=(1,))).all()


def test_half_sums_are_wide() -> None:
    """Narrow floats are summed in float32 and rounded once."""
    x = np.full(4096, 0.1, np.float16)
    assert apply(op_of("sum"), x, axes=(0,)) == np.float16(4096 * float(np.float16(0.1)))


@cache
def session(
    shape: tuple[int, ...], scales: tuple[float, ...], kind: int, attributes: tuple[tuple[str, Any], ...]
) -> onnxruntime.InferenceSession:
    """onnxruntime's Resize."""
    node = helper.make_node("Resize", ["x", "roi", "scales"], ["y"], **dict(attributes))
    rank = len(shape)
    constants = [
        onnx.numpy_helper.from_array(np.array([0.0] * rank + [1.0] * rank, np.float32), "roi"),
        onnx.numpy_helper.from_array(np.array(scales, np.float32), "scales"),
    ]
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString())


#: Scales that give whole sizes, where ONNX and onnxruntime agree on every rule.
GRIDS = [((1, 2, 5, 6), (1.0, 1.0, 2.0, 3.0)), ((1, 1, 8, 6), (1.0, 1.0, 0.5, 2.0))]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates",
    ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"],
)
@pytest.mark.parametrize("antialias", [False, True])
def test_resize(grid: tuple[Any, Any], mode: str, coordinates: str, antialias: bool) -> None:
    """Every mode and coordinate transformation against onnxruntime."""
    shape, scales = grid
    if antialias and mode == "nearest":
        return
    x = np.random.default_rng(0).random(shape, np.float32)
    properties = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "antialias": antialias,
    }
    given = {**properties, "antialias": int(antialias)}
    expected = session(shape, scales, 1, tuple(given.items())).run(None, {"x": x})[0]
    made = apply(ResizeOp, x, sizes=expected.shape, scales=scales, **properties)
    np.testing.assert_allclose(made, expected, atol=2e-6)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_resize_nearest(nearest: str, coordinates: str) -> None:
    """Every way to round a coordinate."""
    shape, scales = (1, 1, 4, 8), (1.0, 1.0, 2.0, 0.5)
    x = np.random.default_rng(0).random(shape, np.float32)
    properties = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    given = {"mode": "nearest", **properties}
    expected = session(shape, scales, 1, tuple(given.items())).run(None, {"x": x})[0]
    made = apply(ResizeOp, x, sizes=expected.shape, scales=scales, **properties)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_excludes_what_is_outside(mode: str) -> None:
    """Weights outside the input are left out and the others fill up to 1."""
    shape, scales = (1, 1, 4, 5), (1.0, 1.0, 2.0, 2.0)
    x = np.random.default_rng(0).random(shape, np.float32)
    given = {"mode": mode, "exclude_outside": int(mode == "cubic"), "cubic_coeff_a": -0.5}
    expected = session(shape, scales, 1, tuple(given.items())).run(None, {"x": x})[0]
    made = apply(
        ResizeOp,
        x,
        sizes=expected.shape,
        mode=mode,
        exclude_outside=mode == "cubic",
        cubic_coeff_a=-0.5,
    )
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_resize_crops() -> None:
    """Places beyond the image take the extrapolation value; the roi's corners are sampled."""
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    made = apply(
        ResizeOp,
        x,
        sizes=(1, 1, 2, 3),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        roi=(0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.5),
        extrapolation_value=-1.0,
    )
    assert made.tolist() == [[[[1, 2, -1], [7, 8, -1]]]]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "uint8", "int8", "int32"])
def test_resize_of_other_types(kind: str) -> None:
    """Interpolated wide, then converted; nearest copies."""
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    x = np.random.default_rng(0).integers(0, 100, (1, 1, 3, 4)).astype(dtype)
    wide = apply(ResizeOp, x.astype(np.float64), sizes=(1, 1, 5, 9), mode="linear")
    made = apply(ResizeOp, x, sizes=(1, 1, 5, 9), mode="linear")
    expected = np.trunc(wide) if dtype.kind in "iu" else wide.astype(dtype)
    np.testing.assert_allclose(made.astype(np.float64), expected.astype(np.float64), rtol=1e-2)
    made = apply(ResizeOp, x, sizes=(1, 1, 6, 8))
    np.testing.assert_array_equal(made, x.repeat(2, 2).repeat(2, 3))
