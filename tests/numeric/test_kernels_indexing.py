"""Gathers, scatters, scans and selections against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.data import indexing, layouts
from glow_backends.cpu.kernels.data.copy import emit_copy
from glow_backends.cpu.kernels.data.scan import CumsumSpec, TriluSpec, emit_cumsum, emit_trilu
from glow_backends.cpu.kernels.data.top_k import TopKSpec, emit_top_k

RNG = np.random.default_rng(5)
QUICK = settings(max_examples=10, deadline=None, derandomize=True)
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def run(emit: Any, spec: Any, like: np.ndarray, inputs: list[np.ndarray], threads: int = 1) -> np.ndarray:
    """The one result of a kernel, of the shape and type of `like`."""
    (result,) = run_kernel(emit, spec, [(like.shape, like.dtype)], inputs, threads)
    return result


@pytest.mark.parametrize("run_length", [1, 5, 100])
@pytest.mark.parametrize("outer,limit,count", [(1, 50, 20), (4, 7, 9), (3, 1, 2)])
def test_gather(outer: int, limit: int, count: int, run_length: int) -> None:
    """Rows of an axis, by indices of both signs; one out of range reads inside."""
    data = RNG.normal(size=(outer, limit, run_length)).astype(np.float32)
    index = RNG.integers(-limit, limit, count)
    spec = indexing.RowsSpec(outer, (limit,), count, run_length, "f32", "i64")
    expected = np.take(data, index, 1)
    np.testing.assert_array_equal(run(indexing.emit_gather, spec, expected, [data, index], 2), expected)
    wild = np.full(count, 1 << 40)
    np.testing.assert_array_equal(
        run(indexing.emit_gather, spec, expected, [data, wild]), data[:, [limit - 1] * count]
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("in_place", [False, True])
def test_tuples(reduction: str, in_place: bool) -> None:
    """Index tuples with a batch axis, both ways."""
    data = RNG.normal(size=(3, 4, 5, 18)).astype(np.float32)
    index = np.stack([RNG.integers(-4, 4, (3, 7)), RNG.integers(-5, 5, (3, 7))], -1).astype(np.int32)
    where = (np.arange(3)[:, None], index[..., 0], index[..., 1])
    spec = indexing.RowsSpec(3, (4, 5), 7, 18, "f32", "i32", True, reduction, in_place)
    np.testing.assert_array_equal(run(indexing.emit_gather, spec, data[where], [data, index], 2), data[where])
    rows = RNG.normal(size=(3, 7, 18)).astype(np.float32)
    expected = data.copy()
    if reduction == "none":
        for b in range(3):
            for t in range(7):
                expected[b, index[b, t, 0], index[b, t, 1]] = rows[b, t]
    else:
        UFUNCS[reduction].at(expected, where, rows)
    inputs = [index, rows] if in_place else [data, index, rows]
    initial = [data] if in_place else []
    outs: list[Any] = [(data.shape, np.float32)]
    (result,) = run_kernel(indexing.emit_scatter, spec, outs, inputs, 2, initial)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_elements(axis: int, reduction: str) -> None:
    """Single elements along an axis, both ways."""
    data = RNG.integers(0, 100, (4, 6, 5)).astype(np.int64)
    shape = tuple(3 if i == axis else n - 1 for i, n in enumerate(data.shape))
    index = np.argsort(RNG.random(data.shape), axis)[tuple(slice(n) for n in shape)]
    index = np.ascontiguousarray(np.where(RNG.random(shape) < 0.5, index, index - data.shape[axis]))
    grid = list(np.indices(shape))
    grid[axis] = index
    where = tuple(grid)
    spec = indexing.ElementsSpec(data.shape, shape, axis, "i64", "i64", reduction)
    expected = data[where]
    np.testing.assert_array_equal(
        run(indexing.emit_gather_elements, spec, expected, [data, index], 2), expected
    )
    updates = RNG.integers(0, 9, shape)
    expected = data.copy()
    if reduction == "add":
        np.add.at(expected, where, updates)
    else:
        expected[where] = updates
    np.testing.assert_array_equal(
        run(indexing.emit_scatter_elements, spec, expected, [data, index, updates], 2), expected
    )


@pytest.mark.parametrize("outer,inner", [(20, 1), (3, 7), (1, 40)])
def test_one_hot(outer: int, inner: int) -> None:
    """Indices of both signs and out of range."""
    index = RNG.integers(-12, 12, (outer, inner)).astype(np.int32)
    pair = np.array([0.5, 2.0], np.float32)
    wide = np.where(index < 0, index + 9, index)[:, None]
    expected = np.where(wide == np.arange(9)[:, None], pair[1], pair[0])
    spec = indexing.OneHotSpec(outer, 9, inner, "f32", "i32")
    np.testing.assert_array_equal(run(indexing.emit_one_hot, spec, expected, [index, pair], 2), expected)


@pytest.mark.parametrize("dtype", ["f32", "i64", "u8"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(3, 40, 1), (2, 9, 37), (1, 1, 5)], ids=str)
def test_cumsum(shape: tuple[int, int, int], reverse: bool, exclusive: bool, dtype: str) -> None:
    """Running sums in both directions."""
    kind = {"f32": np.float32, "i64": np.int64, "u8": np.uint8}[dtype]
    x = RNG.integers(0, 30, shape).astype(kind)
    y = np.flip(x, 1) if reverse else x
    total = np.cumsum(y, 1, dtype=kind)
    total = total - y if exclusive else total
    expected = (np.flip(total, 1) if reverse else total).astype(kind)
    spec = CumsumSpec(*shape, exclusive, reverse, dtype)
    np.testing.assert_array_equal(run(emit_cumsum, spec, expected, [x], 2), expected)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("diagonal", [-30, -2, 0, 3, 40])
@pytest.mark.parametrize("shape", [(2, 20, 37), (1, 5, 3)], ids=str)
def test_trilu(shape: tuple[int, int, int], diagonal: int, upper: bool) -> None:
    """Triangles."""
    x = RNG.normal(size=shape)
    expected = np.triu(x, diagonal) if upper else np.tril(x, diagonal)
    spec = TriluSpec(*shape, upper, diagonal, 8)
    np.testing.assert_array_equal(run(emit_trilu, spec, expected, [x], 2), expected)


def best(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Places of the first k along axis 1, ties in order, NaN above all numbers."""
    wide = x.astype(np.float64)
    rank = np.where(np.isnan(wide), np.inf, np.where(np.isinf(wide), np.sign(wide) * 1e300, wide))
    return np.argsort(-rank if largest else rank, 1, kind="stable")[:, :k]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("shape,k", [((3, 300, 1), 5), ((2, 20, 6), 20), ((2, 700, 1), 300), ((1, 1, 1), 1)])
def test_top_k(shape: tuple[int, int, int], k: int, largest: bool, dtype: Any) -> None:
    """A list for few results and a sort for many, with ties, infinities and NaN."""
    x = RNG.integers(0, 100, shape).astype(dtype)
    if np.dtype(dtype).kind == "f" and shape[1] > 10:
        x = (x - 50).astype(dtype)
        x[0, 3], x[0, 17], x[0, 5], x[0, 9] = np.nan, np.nan, np.inf, -np.inf
        x[0, 7], x[0, 8] = 0.0, -0.0
    name = (
        np.dtype(dtype).str[1:].replace("1", "8").replace("2", "16") if np.dtype(dtype).itemsize < 4 else ""
    )
    name = name or np.dtype(dtype).str[1] + str(8 * np.dtype(dtype).itemsize)
    spec = TopKSpec(*shape, k, largest, name)
    places = best(x, k, largest)
    outs: list[Any] = [(places.shape, dtype), (places.shape, np.int64)]
    scratch = [np.zeros(2 * spec.scratch, np.uint8)] if spec.scratch else []
    found, index = run_kernel(emit_top_k, spec, outs, [x, *scratch], 2)
    np.testing.assert_array_equal(index, places)
    np.testing.assert_array_equal(found, np.take_along_axis(x, places, 1))


@QUICK
@given(st.data(), st.lists(st.sampled_from([1, 2, 3, 20]), min_size=1, max_size=3))
def test_pad(draw: st.DataObject, shape: list[int]) -> None:
    """Borders of every kind."""
    pads = [(draw.draw(st.integers(0, 4)), draw.draw(st.integers(0, 20))) for _ in shape]
    x = RNG.normal(size=shape).astype(np.float32)
    flat = [a for a, _ in pads] + [z for _, z in pads]
    fill = int(np.float32(1.5).view(np.uint32))
    expected = np.pad(x, pads, constant_values=1.5)
    spec: Any = layouts.pad_constant_spec(shape, flat, 4, fill)
    np.testing.assert_array_equal(run(emit_copy, spec, expected, [x], 2), expected)
    for mode in ("edge", "wrap", "reflect"):
        places = [
            [int(i) for i in np.pad(np.arange(n), p, mode=mode)]  # pyright: ignore[reportCallIssue, reportArgumentType]
            for n, p in zip(shape, pads, strict=True)
        ]
        runs = [layouts.padded_runs(n, *p, mode) for n, p in zip(shape, pads, strict=True)]
        spec = layouts.lookup_spec(shape, [len(axis) for axis in places], runs, 4)
        if spec is not None:
            expected = x[np.ix_(*places)]
            np.testing.assert_array_equal(run(emit_copy, spec, expected, [x], 2), expected)
