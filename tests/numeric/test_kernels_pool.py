"""Pooling kernels against sliding windows in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.pool.pool import PoolSpec, emit_pool
from glow_backends.cpu.kernels.pool.pool_argmax import emit_pool_argmax

RNG = np.random.default_rng(8)
CASES: list[tuple[Any, ...]] = [
    # size, kernel, strides, pads, dilations
    ((112, 50), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((13, 13), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((20, 35), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((14, 14), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((15, 15), (3, 2), (2, 3), (0, 1, 2, 2), (2, 1)),
    ((9, 70), (2, 3), (1, 2), (1, 0, 0, 1), (1, 3)),
    ((7, 7), (7, 7), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((5, 80), (1, 40), (1, 1), (0, 3, 0, 3), (1, 1)),
    ((5, 6, 40), (3, 1, 2), (2, 1, 2), (1, 0, 0, 0, 0, 2), (1, 1, 1)),
    ((100,), (3,), (1,), (0, 0), (1,)),
    ((9001,), (4,), (3,), (1, 2), (1,)),
    ((33,), (2,), (5,), (3, 1), (1,)),
]


def windows(x: np.ndarray, case: tuple[Any, ...], fill: float) -> np.ndarray:
    """[outer, *out, inner, window] of [outer, *size, inner]."""
    size, kernel, strides, pads, dilations = case
    rank = len(size)
    widths = [(0, 0), *((pads[i], pads[i + rank]) for i in range(rank)), (0, 0)]
    x = np.pad(x, widths, constant_values=fill)
    reach = tuple(d * (n - 1) + 1 for n, d in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(1, rank + 1)))
    pick = (slice(None), *(slice(None, None, s) for s in strides), slice(None))
    view = view[pick + tuple(slice(None, None, d) for d in dilations)]
    return view.reshape(*view.shape[: rank + 2], -1)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("inner", [1, 16, 37])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pool(case: tuple[Any, ...], inner: int, threads: int) -> None:
    """Maxima and both kinds of means in every layout."""
    x = RNG.normal(size=(3, *case[0], inner)).astype(np.float32)
    expected = windows(x, case, -np.inf).max(-1)
    counts = windows(np.ones_like(x), case, 0).sum(-1)
    totals = windows(x.astype(np.float64), case, 0).sum(-1)
    size, *window = case
    outs: list[Any] = [(expected.shape, np.float32)]
    (result,) = run_kernel(emit_pool, PoolSpec("max", 3, size, inner, *window), outs, [x], threads)
    np.testing.assert_array_equal(result, expected)
    for all_of_it in (False, True):
        spec = PoolSpec("avg", 3, size, inner, *window, count_include_pad=all_of_it)
        (result,) = run_kernel(emit_pool, spec, outs, [x], threads)
        divisor = np.prod(case[1]) if all_of_it else np.maximum(counts, 1)
        np.testing.assert_allclose(result, totals / divisor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inner", [1, 5])
@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[8], CASES[11]], ids=str)
def test_pool_with_places(case: tuple[Any, ...], inner: int) -> None:
    """Each place holds the maximum, and none before it in the window does."""
    x = RNG.integers(0, 6, (2, *case[0], inner)).astype(np.float32)
    expected = windows(x, case, -np.inf).max(-1)
    spec = PoolSpec("max", 2, case[0], inner, *case[1:])
    outs: list[Any] = [(expected.shape, np.float32), (expected.shape, np.int64)]
    result, places = run_kernel(emit_pool_argmax, spec, outs, [x], 2)
    np.testing.assert_array_equal(result, expected)
    offsets = np.arange(x.size, dtype=np.float64).reshape(x.shape)
    held = np.where(windows(x, case, -np.inf) == expected[..., None], windows(offsets, case, np.inf), np.inf)
    some = np.isfinite(expected)
    np.testing.assert_array_equal(places[some], held.min(-1)[some])
    assert (places >= 0).all() and (places < x.size).all()


@pytest.mark.parametrize("dtype", ["f64", "f16", "i8", "u8", "i32"])
@pytest.mark.parametrize("inner", [1, 20])
@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=str)
def test_max_pool_dtypes(case: tuple[Any, ...], inner: int, dtype: str) -> None:
    """Other element types, and a NaN where floats have one."""
    kind = np.dtype({"f64": "f8", "f16": "f2", "i8": "i1", "u8": "u1", "i32": "i4"}[dtype])
    x = RNG.normal(size=(2, *case[0], inner)) * 50
    x = (np.abs(x) if dtype == "u8" else x).astype(kind)
    if kind.kind == "f":
        x[0, 3, 3] = np.nan
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    expected = windows(x, case, lowest).max(-1)
    spec = PoolSpec("max", 2, case[0], inner, *case[1:], dtype=dtype)
    (result,) = run_kernel(emit_pool, spec, [(expected.shape, kind)], [x], 2)
    np.testing.assert_array_equal(result, expected)
