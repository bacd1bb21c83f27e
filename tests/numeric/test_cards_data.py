"""Values of the cards that move data: loops over elements in plain Python, all element types."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from card_runner import apply, run_sample
from hypothesis import given
from hypothesis import strategies as st

from glow_dialects.core.errors import GlowError
from glow_dialects.core.sample import Sample
from glow_dialects.core.types import tensor
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.cumprod import CumprodOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.depth_to_space import DepthToSpaceOp, SpaceToDepthOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.one_hot import OneHotOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.top_k import TopKOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.trilu import TriluOp

KINDS = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int32", "int64", "bool",
    "int4",
)  # fmt: skip


def numbers(*shape: int, kind: str = "float32", seed: int = 0) -> np.ndarray:
    """Small whole numbers, which every element type holds."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 7, shape).astype(getattr(ml_dtypes, kind, kind))


def same(made: np.ndarray, expected: np.ndarray | Sequence[Any]) -> None:
    """Equal as float64."""
    wide = np.asarray(expected).astype(np.float64)
    np.testing.assert_array_equal(made.astype(np.float64), wide)


every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_movement(kind: str) -> None:
    """Operators that copy elements, against indexing one by one."""
    x = numbers(3, 4, 2, kind=kind)
    made = apply(TransposeOp, x, permutation=(2, 0, 1))
    same(made, [[[x[i, j, k] for j in range(4)] for i in range(3)] for k in range(2)])
    made = apply(ReshapeOp, x, results=tensor((4, 6), x.dtype))
    same(made, [[x.flat[6 * i + j] for j in range(6)] for i in range(4)])
    made = apply(FlipOp, x, axes=(1,))
    same(made, [[[x[i, 3 - j, k] for k in range(2)] for j in range(4)] for i in range(3)])
    made = apply(TileOp, x, repeats=(1, 2, 3))
    same(made, [[[x[i, j % 4, k % 2] for k in range(6)] for j in range(8)] for i in range(3)])
    made = apply(ExpandOp, x[:, :1], results=tensor((2, 3, 5, 2), x.dtype))
    same(made, [[[[x[i, 0, k] for k in range(2)] for _ in range(5)] for i in range(3)]] * 2)
    y = numbers(3, 1, 2, kind=kind, seed=1)
    made = apply(ConcatOp, [x, y, x], axis=1)
    for i, j, k in np.ndindex(3, 9, 2):
        assert made[i, j, k] == (y[i, 0, k] if j == 4 else x[i, j % 5, k])
    made = apply(SliceOp, x, starts=(2, 0, 0), ends=(-1, 4, 1), steps=(-2, 3, 1))
    same(made, [[[x[i, j, 0]] for j in (0, 3)] for i in (2, 0)])
    small = numbers(1, 2, 2, kind=kind, seed=2)
    made = apply(InsertOp, x, small, starts=(1, 0, 0), steps=(1, 3, 1))
    expected = x.copy()
    for j, k in itertools.product(range(2), range(2)):
        expected[1, 3 * j, k] = small[0, j, k]
    same(made, expected)


@given(st.data())
def test_slice_is_pythons(data: st.DataObject) -> None:
    """Any explicit bounds, both directions."""
    size = data.draw(st.integers(1, 7))
    step = data.draw(st.integers(-3, 3).filter(bool))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start = data.draw(st.integers(0, high))
    end = data.draw(st.integers(low, high))
    x = np.arange(size, dtype=np.float32)
    made = apply(SliceOp, x, starts=(start,), ends=(end,), steps=(step,))
    same(made, [x[i] for i in range(start, end, step)])


PADS: dict[str, Callable[[int, int], int]] = {
    "edge": lambda i, n: min(max(i, 0), n - 1),
    "wrap": lambda i, n: i % n,
    "reflect": lambda i, n: bounced(i, n),
}


def bounced(i: int, n: int) -> int:
    """Reflections at the first and the last element until the place is inside."""
    while n > 1 and not 0 <= i < n:
        i = -i if i < 0 else 2 * (n - 1) - i
    return i if n > 1 else 0


@every_kind
@pytest.mark.parametrize("mode", ["constant", *PADS])
def test_pad(mode: str, kind: str) -> None:
    """Each place asks the formula of its mode, further than the size too."""
    x = numbers(3, 2, kind=kind)
    made = apply(PadOp, x, pads=(1, 4, 2, 3), mode=mode, value=1.0)
    assert made.shape == (6, 9)
    for i, j in np.ndindex(6, 9):
        a, c = i - 1, j - 4
        if mode == "constant":
            inside = 0 <= a < 3 and 0 <= c < 2
            assert made[i, j] == (x[a, c] if inside else np.array(1).astype(x.dtype))
        else:
            assert made[i, j] == x[PADS[mode](a, 3), PADS[mode](c, 2)]


@every_kind
def test_gathers(kind: str) -> None:
    """gather, gather_elements and gather_nd, with indices from the end."""
    x = numbers(3, 4, 2, kind=kind)
    indices = np.array([[3, 0, -1], [1, 1, -4]], np.int32)
    made = apply(GatherOp, x, indices, axis=1)
    assert made.shape == (3, 2, 3, 2)
    for i, a, c, k in np.ndindex(*made.shape):
        assert made[i, a, c, k] == x[i, indices[a, c], k]
    places = np.random.default_rng(0).integers(-4, 4, (2, 5, 2))
    made = apply(GatherElementsOp, x, places, axis=1)
    for i, j, k in np.ndindex(2, 5, 2):
        assert made[i, j, k] == x[i, places[i, j, k], k]
    pairs = np.array([[0, 1], [2, -1], [-3, 0]])
    made = apply(GatherNdOp, x, pairs)
    same(made, np.stack([x[0, 1], x[2, 3], x[0, 0]]))
    rows = np.array([[[1], [0]], [[3], [3]], [[0], [-1]]])
    made = apply(GatherNdOp, x, rows, batch_dims=1)
    for i, j in np.ndindex(3, 2):
        same(made[i, j], x[i, rows[i, j, 0]])


JOIN: dict[str, Callable[[float, float], float]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("reduction", sorted(JOIN))
def test_scatters(reduction: str, kind: str) -> None:
    """One update after another, with equal indices and indices from the end."""
    x = numbers(3, 4, kind=kind)
    places = np.array([[0, 3], [1, -3], [-1, 0]])
    updates = numbers(3, 2, kind=kind, seed=1)
    expected = x.astype(np.float64)
    for i, j in np.ndindex(3, 2):
        old, new = expected[i, places[i, j]], float(updates[i, j])
        expected[i, places[i, j]] = JOIN[reduction](old, new)
    same(apply(ScatterElementsOp, x, places, updates, axis=1, reduction=reduction), expected)
    tuples = np.array([[[0, 1]], [[2, -1]], [[0, 1]]])
    updates = numbers(3, 1, kind=kind, seed=2)
    expected = x.astype(np.float64)
    for i in range(3):
        a, c = tuples[i, 0]
        expected[a, c] = JOIN[reduction](expected[a, c], float(updates[i, 0]))
    same(apply(ScatterNdOp, x, tuples, updates, reduction=reduction), expected)


def test_index_out_of_range_is_one_clear_error() -> None:
    """The operator, the index and the size."""
    x = numbers(3, 4)
    with pytest.raises(GlowError, match=r"gather: index 4 is out of range for 4 elements"):
        apply(GatherOp, x, np.array([0, 4]), axis=1)
    with pytest.raises(GlowError, match=r"gather_nd: index -4 is out of range for 3 elements"):
        apply(GatherNdOp, x, np.array([[-4]]))
    with pytest.raises(GlowError, match=r"scatter_elements: index 9 is out of range"):
        apply(ScatterElementsOp, x, np.array([[9]]), np.ones((1, 1), np.float32))


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("largest", [True, False])
def test_top_k(largest: bool, kind: str) -> None:
    """Python's stable sort decides between equal elements."""
    x = numbers(4, 9, kind=kind)
    sample = Sample(TopKOp, (x,), {"k": 5, "axis": 1, "largest": largest})
    values, indices = run_sample(sample)
    for i in range(4):
        sign = -1 if largest else 1
        ranked = sorted(range(9), key=lambda j, i=i, s=sign: s * float(x[i, j]))[:5]
        assert indices[i].tolist() == ranked
        same(values[i], x[i, ranked])


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("last", [False, True])
def test_arg_reductions(last: bool, kind: str) -> None:
    """The first or the last of equal elements."""
    x = numbers(4, 9, kind=kind)
    for op, extreme in ((ArgMaxOp, max), (ArgMinOp, min)):
        made = apply(op, x, axis=1, select_last_index=last)
        for i in range(4):
            row = [float(v) for v in x[i]]
            places = [j for j, v in enumerate(row) if v == extreme(row)]
            assert made[i] == places[-1 if last else 0]
    assert apply(ArgMaxOp, x, axis=0, keepdims=True).shape == (1, 9)


def test_bit_cast() -> None:
    """The bytes stay."""
    x = np.array([1.0, -2.5, np.inf], np.float32)
    made = apply(BitCastOp, x, results=tensor((3,), "uint32"))
    assert made.dtype == np.uint32 and made.tobytes() == x.tobytes()


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumprod(exclusive: bool, reverse: bool) -> None:
    """Products of slices."""
    x = numbers(3, 5, kind="int64") + 1
    made = apply(CumprodOp, x, axis=1, exclusive=exclusive, reverse=reverse)
    for i, j in np.ndindex(3, 5):
        part = x[i, j + exclusive :] if reverse else x[i, : j + 1 - exclusive]
        assert made[i, j] == math.prod(int(v) for v in part)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(exclusive: bool, reverse: bool) -> None:
    """Sums of slices."""
    x = numbers(3, 5, kind="int32")
    made = apply(CumsumOp, x, axis=1, exclusive=exclusive, reverse=reverse)
    for i, j in np.ndindex(3, 5):
        part = x[i, j + exclusive :] if reverse else x[i, : j + 1 - exclusive]
        assert made[i, j] == sum(part)


def test_one_hot() -> None:
    """On at the index, counted from the end where negative; off where it is outside."""
    indices, values = np.array([0, 2, -1, 5, -4]), np.array([3.0, 7.0], np.float32)
    made = apply(OneHotOp, indices, values, depth=3, axis=1)
    hot = {(0, 0), (1, 2), (2, 2)}
    same(made, [[7 if (i, j) in hot else 3 for j in range(3)] for i in range(5)])
    same(apply(OneHotOp, indices, values, depth=3, axis=0), made.T)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    """Channel of a place, by the definition of either order; the inverse undoes it."""
    x = numbers(2, 12, 2, 3)
    made = apply(DepthToSpaceOp, x, block=2, mode=mode)
    assert made.shape == (2, 3, 4, 6)
    for n, c, h, w in np.ndindex(*made.shape):
        block = 2 * (h % 2) + w % 2
        channel = 3 * block + c if mode == "DCR" else 4 * c + block
        assert made[n, c, h, w] == x[n, channel, h // 2, w // 2]
    same(apply(SpaceToDepthOp, made, block=2, mode=mode), x)


@every_kind
@pytest.mark.parametrize("k", [-5, -1, 0, 2, 9])
def test_trilu(k: int, kind: str) -> None:
    """Both triangles of rectangular matrices."""
    x = numbers(2, 3, 4, kind=kind)
    for upper in (False, True):
        made = apply(TriluOp, x, upper=upper, k=k)
        for b, i, j in np.ndindex(2, 3, 4):
            inside = j - i >= k if upper else j - i <= k
            assert made[b, i, j] == (x[b, i, j] if inside else 0)
