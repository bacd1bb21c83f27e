"""Copy-like kernels against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.data import layouts
from glow_backends.cpu.kernels.data.channels import PermuteChannelsSpec, emit_permute_channels
from glow_backends.cpu.kernels.data.copy import CopySpec, emit_copy
from glow_backends.cpu.kernels.data.interleave import InterleaveSpec, emit_interleave
from glow_dialects.core.blocks import block_channels, unblock_channels

RNG = np.random.default_rng(3)
TYPES = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}
QUICK = settings(max_examples=12, deadline=None, derandomize=True)
SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 16, 17, 33]), min_size=1, max_size=4).filter(
    lambda s: np.prod(s) < 20000
)


def data(shape: Any, width: int) -> np.ndarray:
    """Distinct numbers where the type has enough of them."""
    return RNG.permutation(int(np.prod(shape))).reshape(shape).astype(TYPES[width])


def check(spec: CopySpec, expected: np.ndarray, *sources: np.ndarray, threads: int = 1) -> None:
    """Run the copy and compare exactly."""
    (result,) = run_kernel(emit_copy, spec, [(expected.shape, expected.dtype)], sources, threads)
    np.testing.assert_array_equal(result, expected)


@QUICK
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 3]))
def test_transpose(draw: st.DataObject, shape: list[int], width: int, threads: int) -> None:
    """Any permutation of any shape."""
    permutation = draw.draw(st.permutations(range(len(shape))))
    x = data(shape, width)
    spec = layouts.transpose_spec(shape, permutation, width)
    check(spec, np.ascontiguousarray(x.transpose(permutation)), x, threads=threads)


@pytest.mark.parametrize("shape", [(100, 70), (3, 1000), (1000, 3), (64, 64), (2, 129, 31)], ids=str)
@pytest.mark.parametrize("width", [1, 4, 8])
def test_matrix_transpose(shape: tuple[int, ...], width: int) -> None:
    """Large and thin matrices, shared by two workers."""
    x = data(shape, width)
    permutation = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    spec = layouts.transpose_spec(shape, permutation, width)
    check(spec, np.ascontiguousarray(np.swapaxes(x, -1, -2)), x, threads=2)


@QUICK
@given(st.data(), SHAPES, st.sampled_from([1, 4, 8]))
def test_slice_and_flip(draw: st.DataObject, shape: list[int], width: int) -> None:
    """Slices with steps of both signs."""
    slices, starts, steps = [], [], []
    for n in shape:
        step = draw.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        low = draw.draw(st.integers(0, n - 1))
        high = draw.draw(st.integers(low + 1, n))
        slices.append(slice(low, high, step) if step > 0 else slice(high - 1, low - 1 if low else None, step))
        starts.append(low if step > 0 else high - 1)
        steps.append(step)
    x = data(shape, width)
    expected = np.ascontiguousarray(x[tuple(slices)])
    check(layouts.slice_spec(shape, starts, steps, expected.shape, width), expected, x, threads=2)
    axes = draw.draw(st.sets(st.integers(0, len(shape) - 1)))
    spec = layouts.flip_spec(shape, tuple(axes), width)
    check(spec, np.ascontiguousarray(np.flip(x, tuple(axes))), x)


@QUICK
@given(st.data(), SHAPES, st.sampled_from([1, 4]))
def test_concat_and_insert(draw: st.DataObject, shape: list[int], width: int) -> None:
    """Pieces along any axis, and a box placed into a tensor."""
    axis = draw.draw(st.integers(0, len(shape) - 1))
    sizes = draw.draw(st.lists(st.sampled_from([1, 2, 7, 16]), min_size=1, max_size=3))
    pieces = [data([*shape[:axis], n, *shape[axis + 1 :]], width) for n in sizes]
    spec = layouts.concat_spec([p.shape for p in pieces], axis, width)
    check(spec, np.concatenate(pieces, axis), *pieces, threads=2)
    big, small = data([n + 2 for n in shape], width), data(shape, width)
    starts = [draw.draw(st.integers(0, 2)) for _ in shape]
    steps = [draw.draw(st.integers(1, 2)) if n <= 2 else 1 for n in shape]
    starts = [0 if step == 2 else start for start, step in zip(starts, steps, strict=True)]
    expected = big.copy()
    expected[tuple(slice(a, a + n * s, s) for a, n, s in zip(starts, shape, steps, strict=True))] = small
    check(layouts.insert_spec(big.shape, shape, starts, steps, width), expected, big, small, threads=2)
    spec = layouts.insert_spec(big.shape, shape, starts, steps, width, whole=False)
    outs: list[tuple[tuple[int, ...], Any]] = [(big.shape, big.dtype)]
    (result,) = run_kernel(emit_copy, spec, outs, [small], initial=[big])
    np.testing.assert_array_equal(result, expected)


@QUICK
@given(st.data(), SHAPES, st.sampled_from([1, 2, 4]))
def test_tile_and_expand(draw: st.DataObject, shape: list[int], width: int) -> None:
    """Repetition."""
    x = data(shape, width)
    repeats = [draw.draw(st.integers(1, 3)) for _ in shape]
    check(layouts.tile_spec(shape, repeats, width), np.tile(x, repeats), x, threads=2)
    target = [draw.draw(st.integers(1, 4)) if n == 1 else n for n in shape]
    lead = draw.draw(st.lists(st.integers(1, 3), max_size=2))
    expected = np.ascontiguousarray(np.broadcast_to(x, [*lead, *target]))
    check(layouts.expand_spec(shape, expected.shape, width), expected, x, threads=2)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("shape,block", [((2, 18, 5, 7), 3), ((1, 8, 16, 33), 2)], ids=str)
def test_depth_and_space(shape: tuple[int, ...], block: int, mode: str) -> None:
    """Depth to space in both modes, and back."""
    n, c, h, w = shape
    x = data(shape, 4)
    if mode == "CRD":
        moved = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        moved = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    expected = np.ascontiguousarray(moved).reshape(n, c // block**2, h * block, w * block)
    check(layouts.depth_to_space_spec(shape, block, mode, 4), expected, x)
    check(layouts.space_to_depth_spec(expected.shape, block, mode, 4), x, expected)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 16, 20, 64])
@pytest.mark.parametrize("size", [(1, 1), (5, 7), (32, 24)], ids=str)
@pytest.mark.parametrize("lanes,width", [(16, 4), (8, 4), (16, 1)])
def test_blocked_channels(
    size: tuple[int, int], channels: int, last: bool, lanes: int, width: int, threads: int
) -> None:
    """NCHW and NHWC to NCHWc and back; missing channels are zeros."""
    x = data((2, channels, *size), width)
    blocks = -(-channels // lanes)
    padded = np.zeros((2, blocks * lanes, *size), x.dtype)
    padded[:, :channels] = x
    blocked = np.ascontiguousarray(np.moveaxis(padded.reshape(2, blocks, lanes, *size), 2, -1))
    plain = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x
    check(layouts.block_spec(plain.shape, lanes, width, last), blocked, plain, threads=threads)
    check(layouts.unblock_spec(blocked.shape, channels, width, last), plain, blocked, threads=threads)


def test_channels_repeated() -> None:
    """More channels than the input has, in blocks of 4."""
    x, order = data((2, 8, 3, 5), 4), [o // 3 for o in range(21)]
    blocked, expected = (block_channels(a, 4) for a in (x, x[:, order]))
    spec = PermuteChannelsSpec(2, 15, tuple(order), 4, 4, 8)
    outs: list[Any] = [(expected.shape, expected.dtype)]
    (result,) = run_kernel(emit_permute_channels, spec, outs, [blocked], 2)
    np.testing.assert_array_equal(unblock_channels(result, 21), x[:, order])


@pytest.mark.parametrize("channels,groups", [(112, 4), (24, 3), (16, 2), (240, 8), (7, 7)])
@pytest.mark.parametrize("lanes,width", [(16, 4), (8, 4), (16, 1)])
def test_permute_channels(channels: int, groups: int, lanes: int, width: int) -> None:
    """A channel shuffle on blocks."""
    x = data((2, channels, 3, 5), width)
    order = tuple(int(i) for i in np.arange(channels).reshape(groups, -1).T.reshape(-1))
    blocked, expected = (block_channels(a, lanes) for a in (x, x[:, order]))
    spec = PermuteChannelsSpec(2, 15, order, lanes, width)
    outs: list[Any] = [(expected.shape, expected.dtype)]
    (result,) = run_kernel(emit_permute_channels, spec, outs, [blocked], 2)
    np.testing.assert_array_equal(unblock_channels(result, channels), x[:, order])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sources", [2, 3, 8, 16])
@pytest.mark.parametrize("count,width", [(16, 4), (1000, 4), (33, 1), (21, 8)])
def test_interleave(sources: int, count: int, width: int, threads: int) -> None:
    """Single elements in turn."""
    parts = [data((count,), width) for _ in range(sources)]
    expected = np.stack(parts, -1)
    outs: list[Any] = [(expected.shape, expected.dtype)]
    spec = InterleaveSpec(sources, count, width)
    (result,) = run_kernel(emit_interleave, spec, outs, parts, threads)
    np.testing.assert_array_equal(result, expected)
