"""Reductions, normalisations, pooling and data movement against NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.arg_reduce import ArgReduceSpec, emit_arg_reduce
from glow_backends.cpu.kernels.reduce import ReduceSpec, emit_reduce

RNG = np.random.default_rng(11)
NUMPY: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "i1": np.bool_, "i8": np.int8,
    "i32": np.int32, "i64": np.int64, "u8": np.uint8,
}  # fmt: skip


def normal(*shape: int) -> np.ndarray:
    """Normally distributed f32."""
    return RNG.normal(size=shape).astype(np.float32)


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the reduced axes."""
    return tuple(n for i, n in enumerate(shape) if i not in {a % len(shape) for a in axes})


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "sum_square": lambda x, axis: np.sum(x * x, axis=axis),
    "l1": lambda x, axis: np.sum(np.abs(x), axis=axis),
    "l2": lambda x, axis: np.sqrt(np.sum(x * x, axis=axis)),
    "log_sum": lambda x, axis: np.log(np.sum(x, axis=axis)),
    "log_sum_exp": lambda x, axis: np.log(np.sum(np.exp(x), axis=axis)),
}

REDUCE_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 70), (1,)),
    ((130, 5), (0,)),
    ((4, 33, 7, 9), (0, 2, 3)),
    ((4, 9, 77), (0, 1)),
    ((4, 9, 77), (0, 2)),
    ((4, 3, 77), (1,)),
    ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((3, 1, 5), (1,)),
    ((6, 7), ()),
    ((5, 3), (1,)),
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape,axes", REDUCE_SHAPES, ids=str)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduce(op: str, shape: tuple[int, ...], axes: tuple[int, ...], threads: int) -> None:
    """Every reduction over inner, outer and mixed axes."""
    x = RNG.uniform(0.5, 1.5, shape).astype(np.float32)
    expected = REDUCTIONS[op](x.astype(np.float64), axis=axes)
    kept = kept_shape(shape, axes)
    (result,) = run_kernel(
        emit_reduce, ReduceSpec(op, shape, axes), [(kept, np.float32)], [x], threads
    )
    np.testing.assert_allclose(result, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f64", "f16", "i32", "i64", "i8", "u8", "i1"])
@pytest.mark.parametrize("op", ["sum", "max", "min", "prod", "sum_square", "l1"])
def test_reduce_dtypes(op: str, dtype: str) -> None:
    """Other element types; integers wrap."""
    if dtype == "i1" and op not in ("max", "min"):
        pytest.skip("not defined on booleans")
    x = RNG.integers(-3 if dtype[0] in "fi" and dtype != "i1" else 0, 2, (5, 21, 70))
    x = np.where(x == 0, 1, x).astype(NUMPY[dtype])
    if op == "prod" and dtype == "f16":
        x[x < -1] = -1
    for axis in (1, 2):
        expected = REDUCTIONS[op](x.astype(np.int64), axis=axis).astype(NUMPY[dtype])
        (result,) = run_kernel(
            emit_reduce, ReduceSpec(op, x.shape, (axis,), dtype), [(expected.shape, x.dtype)], [x]
        )
        np.testing.assert_array_equal(result, expected)


def test_long_sums_stay_accurate() -> None:
    """A million terms, along rows and down columns."""
    x = RNG.uniform(0, 1, 1_000_000).astype(np.float32)
    for shape, axis in (((1, 1_000_000), 1), ((62_500, 16), 0)):
        y = x.reshape(shape)
        expected = y.astype(np.float64).sum(axis)
        (result,) = run_kernel(
            emit_reduce, ReduceSpec("sum", shape, (axis,)), [(expected.shape, np.float32)], [y]
        )
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_reductions_pass_nan_and_infinity() -> None:
    """NaN wins max and min; log_sum_exp survives infinities and large values."""
    x = normal(4, 50)
    x[0, 7], x[1, 3], x[2] = np.nan, np.inf, -np.inf
    for op, function in (("max", np.max), ("min", np.min)):
        for y, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            spec = ReduceSpec(op, y.shape, (axis,))
            (result,) = run_kernel(emit_reduce, spec, [((4,), np.float32)], [y])
            np.testing.assert_array_equal(result, function(y, axis=axis))
    x[3] += 1000
    expected = np.array([np.nan, np.inf, -np.inf, np.logaddexp.reduce(x[3].astype(np.float64))])
    (result,) = run_kernel(
        emit_reduce, ReduceSpec("log_sum_exp", x.shape, (1,)), [((4,), np.float32)], [x]
    )
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "u8", "i8"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape,axis", [((3, 100), 1), ((3, 5), -1), ((40, 35), 0), ((2, 9, 3), 1)])
def test_arg_reduce(
    shape: tuple[int, ...], axis: int, last: bool, dtype: str, threads: int
) -> None:
    """Positions of extremes, with many ties."""
    x = RNG.integers(0, 5, shape).astype(NUMPY[dtype])
    for op, function in (("arg_max", np.argmax), ("arg_min", np.argmin)):
        expected = function(np.flip(x, axis) if last else x, axis=axis)
        if last:
            expected = shape[axis] - 1 - expected
        spec = ArgReduceSpec(op, shape, axis, dtype, last)
        (result,) = run_kernel(emit_arg_reduce, spec, [(expected.shape, np.int64)], [x], threads)
        np.testing.assert_array_equal(result, expected)
