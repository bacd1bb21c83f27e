"""Reductions, normalisations, pooling and data movement against NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.norm.lrn_blocked import BlockedLrnSpec, emit_lrn_blocked
from glow_backends.cpu.kernels.norm.normalize import (
    BatchNormSpec,
    GroupNormSpec,
    LayerNormSpec,
    LpNormalizeSpec,
    LrnSpec,
    emit_batch_norm,
    emit_group_norm,
    emit_layer_norm,
    emit_lp_normalize,
    emit_lrn,
)
from glow_backends.cpu.kernels.norm.softmax import SoftmaxSpec, emit_softmax
from glow_backends.cpu.kernels.reduction.arg_reduce import ArgReduceSpec, emit_arg_reduce
from glow_backends.cpu.kernels.reduction.reduce import ReduceSpec, emit_reduce
from glow_dialects.core.blocks import block_channels, unblock_channels

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


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape,axes", REDUCE_SHAPES, ids=str)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduce(op: str, shape: tuple[int, ...], axes: tuple[int, ...], threads: int) -> None:
    """Every reduction over inner, outer and mixed axes."""
    x = RNG.uniform(0.5, 1.5, shape).astype(np.float32)
    expected = REDUCTIONS[op](x.astype(np.float64), axis=axes)
    kept = kept_shape(shape, axes)
    (result,) = run_kernel(emit_reduce, ReduceSpec(op, shape, axes), [(kept, np.float32)], [x], threads)
    np.testing.assert_allclose(result, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *product(("sum", "max", "min", "prod", "sum_square", "l1"), ("f64", "f16", "i32", "i64", "i8", "u8")),
        ("max", "i1"),
        ("min", "i1"),
    ],
)
def test_reduce_dtypes(op: str, dtype: str) -> None:
    """Other element types; integers wrap."""
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
    (result,) = run_kernel(emit_reduce, ReduceSpec("log_sum_exp", x.shape, (1,)), [((4,), np.float32)], [x])
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "u8", "i8"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape,axis", [((3, 100), 1), ((3, 5), -1), ((40, 35), 0), ((2, 9, 3), 1)])
def test_arg_reduce(shape: tuple[int, ...], axis: int, last: bool, dtype: str, threads: int) -> None:
    """Positions of extremes, with many ties."""
    x = RNG.integers(0, 5, shape).astype(NUMPY[dtype])
    for op, function in (("arg_max", np.argmax), ("arg_min", np.argmin)):
        expected = function(np.flip(x, axis) if last else x, axis=axis)
        if last:
            expected = shape[axis] - 1 - expected
        spec = ArgReduceSpec(op, shape, axis, dtype, last)
        (result,) = run_kernel(emit_arg_reduce, spec, [(expected.shape, np.int64)], [x], threads)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_arg_reduce_of_nan(axis: int, last: bool) -> None:
    """A NaN is the extreme of either kind, the first or last of several."""
    x = normal(40, 50)
    x[3, 7] = x[30, 7] = x[3, 45] = x[31, 31] = np.nan
    for op, function in (("arg_max", np.argmax), ("arg_min", np.argmin)):
        expected = function(np.flip(x, axis) if last else x, axis=axis)
        if last:
            expected = x.shape[axis] - 1 - expected
        spec = ArgReduceSpec(op, x.shape, axis, "f32", last)
        (result,) = run_kernel(emit_arg_reduce, spec, [(expected.shape, np.int64)], [x])
        np.testing.assert_array_equal(result, expected)


LINE_SHAPES = [((5, 7), 1), ((3, 129), -1), ((3, 1000), 1), ((2, 33, 19), 1), ((70, 3), 0),
               ((1, 40, 7, 5), 1), ((3, 1), 1), ((4, 16), 1), ((2, 600, 16), 1)]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("shape,axis", LINE_SHAPES, ids=str)
def test_softmax(shape: tuple[int, ...], axis: int, log: bool, threads: int) -> None:
    """Softmax and log-softmax over rows and columns."""
    x = normal(*shape) * 10
    y = x.astype(np.float64)
    expected = y - np.logaddexp.reduce(y, axis=axis, keepdims=True)
    expected = expected if log else np.exp(expected)
    spec = SoftmaxSpec(shape, axis, log)
    (result,) = run_kernel(emit_softmax, spec, [(shape, np.float32)], [x], threads)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=4e-6 if log else 1e-37)


def test_softmax_of_extremes() -> None:
    """Masked (-inf) and equal elements."""
    x = normal(3, 200)
    x[0, ::2], x[1], x[2] = -np.inf, 4e30, 0.0
    (result,) = run_kernel(emit_softmax, SoftmaxSpec(x.shape), [(x.shape, np.float32)], [x])
    assert (result[0, ::2] == 0).all()
    np.testing.assert_allclose(result[0].sum(), 1, rtol=1e-5)
    np.testing.assert_array_equal(result[1:], np.float32(1 / 200))


@pytest.mark.parametrize("dtype", ["f16", "f64"])
@pytest.mark.parametrize("shape", [(3, 50), (3, 777)])
def test_softmax_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    """Half and double precision, with a scale."""
    x = (normal(*shape) * 3).astype(NUMPY[dtype])
    y = np.exp(x.astype(np.float64) * 0.5)
    spec = SoftmaxSpec(shape, 1, dtype=dtype, scale=0.5)
    (result,) = run_kernel(emit_softmax, spec, [(shape, x.dtype)], [x])
    np.testing.assert_allclose(
        result, y / y.sum(1, keepdims=True), rtol=1e-3 if dtype == "f16" else 1e-14, atol=1e-7
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape,axis", [((5, 7), 1), ((9, 768), -1), ((2, 3, 5, 20), 2), ((4, 1), 1)])
def test_layer_norm(shape: tuple[int, ...], axis: int, threads: int) -> None:
    """Layer norm with every choice of operands, and RMS norm."""
    axes = tuple(range(axis % len(shape), len(shape)))
    inner = shape[axes[0] :]
    x, scale, bias = normal(*shape) * 3 + 5, normal(*inner), normal(*inner)
    y = x.astype(np.float64)
    mean = y.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(y.var(axes, keepdims=True) + 1e-5)
    unit = (y - mean) * inverse
    rows = shape[: axes[0]]
    outs: list[tuple[tuple[int, ...], Any]] = [(shape, np.float32)]
    cases = {(True, True): [scale, bias], (True, False): [scale], (False, False): []}
    for (has_scale, has_bias), parameters in cases.items():
        spec = LayerNormSpec(shape, axis, 1e-5, has_scale, has_bias)
        (result,) = run_kernel(emit_layer_norm, spec, outs, [x, *parameters], threads)
        expected = unit * (scale if has_scale else 1) + (bias if has_bias else 0)
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)
    spec = LayerNormSpec(shape, axis, statistics=True)
    result, m, s = run_kernel(
        emit_layer_norm, spec, [*outs, (rows, np.float32), (rows, np.float32)], [x, scale, bias]
    )
    np.testing.assert_allclose(m, mean.reshape(rows), rtol=1e-6)
    np.testing.assert_allclose(s, inverse.reshape(rows), rtol=1e-5)
    np.testing.assert_allclose(result, unit * scale + bias, rtol=2e-5, atol=2e-5)
    spec = LayerNormSpec(shape, axis, bias=False, rms=True)
    (result,) = run_kernel(emit_layer_norm, spec, outs, [x, scale], threads)
    expected = y / np.sqrt((y * y).mean(axes, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("spatial", [(5, 5), (31, 40)])
def test_group_norm(spatial: tuple[int, ...], groups: int) -> None:
    """Group norm; as many groups as channels is instance norm."""
    torch = pytest.importorskip("torch")
    x, scale, bias = normal(2, 6, *spatial) + 2, normal(6), normal(6)
    expected = torch.nn.functional.group_norm(
        *(torch.from_numpy(a.astype(np.float64)) if isinstance(a, np.ndarray) else a
          for a in (x, groups, scale, bias))
    ).numpy()  # fmt: skip
    spec = GroupNormSpec(2, 6, int(np.prod(spatial)), groups)
    (result,) = run_kernel(emit_group_norm, spec, [(x.shape, np.float32)], [x, scale, bias], threads=2)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("layout", ["first", "last", "blocked"])
def test_batch_norm(layout: str, threads: int) -> None:
    """Batch norm with given statistics in three layouts."""
    x, scale, bias, mean = normal(2, 32, 9, 21), normal(32), normal(32), normal(32)
    variance = RNG.uniform(0.1, 2, 32).astype(np.float32)
    y = x.astype(np.float64)
    c = (slice(None), None, None)
    expected = (y - mean[c]) / np.sqrt(variance[c] + 1e-3) * scale[c] + bias[c]
    spec = BatchNormSpec(2, 32, 9 * 21, 1e-3)
    if layout == "last":
        x, expected = (np.moveaxis(a, 1, -1).copy() for a in (x, expected))
        spec = BatchNormSpec(2 * 9 * 21, 32, 1, 1e-3)
    elif layout == "blocked":
        x, expected = (np.moveaxis(a.reshape(2, 2, 16, 9, 21), 2, -1).copy() for a in (x, expected))
        spec = BatchNormSpec(2, 32, 9 * 21, 1e-3, channel_block=16)
    (result,) = run_kernel(
        emit_batch_norm, spec, [(x.shape, np.float32)], [x, scale, bias, mean, variance], threads
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size,beta", [(5, 0.75), (3, 0.5), (4, 1.0), (7, 0.6)])
def test_lrn(size: int, beta: float) -> None:
    """Local response normalisation with ONNX's window."""
    x = normal(2, 11, 5, 9)
    y = x.astype(np.float64)
    total = np.zeros_like(y)
    for c in range(11):
        low, high = max(0, c - (size - 1) // 2), min(11, c + size // 2 + 1)
        total[:, c] = (y[:, low:high] ** 2).sum(1)
    expected = y / (2.0 + 0.3 / size * total) ** beta
    spec = LrnSpec(2, 11, 45, size, 0.3, beta, 2.0)
    (result,) = run_kernel(emit_lrn, spec, [(x.shape, np.float32)], [x], threads=2)
    np.testing.assert_allclose(result, expected, rtol=3e-6)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("shape,axis", LINE_SHAPES, ids=str)
def test_lp_normalize(shape: tuple[int, ...], axis: int, p: int) -> None:
    """Lines of norm one; a line of zeros stays zero."""
    x = normal(*shape)
    x[0] = 0
    y = x.astype(np.float64)
    norm = np.linalg.norm(y, p, axis, keepdims=True)
    spec = LpNormalizeSpec(shape, axis, p)
    (result,) = run_kernel(emit_lp_normalize, spec, [(shape, np.float32)], [x])
    np.testing.assert_allclose(result, y / np.where(norm == 0, 1, norm), rtol=3e-6)


@pytest.mark.parametrize("channels", [7, 16, 40, 64])
@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize("lanes", [8, 16])
def test_lrn_on_blocks(lanes: int, size: int, channels: int) -> None:
    """The same on channel blocks, whose last lanes may hold no channel."""
    x = normal(2, channels, 3, 5)
    y = x.astype(np.float64)
    total = np.zeros_like(y)
    for c in range(channels):
        low, high = max(0, c - (size - 1) // 2), min(channels, c + size // 2 + 1)
        total[:, c] = (y[:, low:high] ** 2).sum(1)
    expected = y / (2.0 + 0.3 / size * total) ** 0.75
    blocked = block_channels(x, lanes)
    blocked[:, -1, ..., channels % lanes or lanes :] = 1e30
    spec = BlockedLrnSpec(2, channels, 15, lanes, size, 0.3, 0.75, 2.0)
    (result,) = run_kernel(emit_lrn_blocked, spec, [(blocked.shape, np.float32)], [blocked], threads=2)
    np.testing.assert_allclose(unblock_channels(result, channels), expected, rtol=3e-6)
