"""Products in which each row has the matrix of its expert, against NumPy; what of the weights they read."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp, pack
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.round_blocks import RoundBlocksOp

#: Rows, columns, depth, experts: no runs, runs of all lengths, tails of columns, tiles that fill exactly.
SIZES = [(1, 64, 32, 3), (4, 37, 64, 9), (70, 130, 96, 5), (36, 64, 128, 2)]
#: Bits of codes, inputs that share a scale, whether blocks have points, whether activations have 8 bits.
FORMS = [
    (4, 32, False, True),
    (4, 32, True, True),
    (8, 32, False, True),
    (8, 16, True, True),
    (4, 32, False, False),
    (8, 32, True, False),
    (2, 16, False, False),
    (2, 32, True, True),
]


def chosen_of(rows: int, experts: int) -> np.ndarray:
    """Experts of rows: sorted ones, of which one is asked by nobody; of few rows in any order."""
    r = np.random.default_rng(rows)
    made = r.permutation(experts)[:rows] if rows < 8 else np.sort(r.integers(0, experts, rows))
    return np.where(made == 1, 0, made).astype(np.int64)


def labels(net: Any) -> list[str]:
    return [call.label.removeprefix("glow_cpu_instr.") for call in net.program.selection.calls]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_floats(kind: type, size: tuple[int, ...], threads: int) -> None:
    """Each row by its own matrix; the numbers of other experts are not read."""
    m, n, k, count = size
    r, experts = np.random.default_rng(0), chosen_of(m, count)
    x, w = r.standard_normal((m, k)).astype(np.float32), r.standard_normal((count, n, k)).astype(kind)
    w[[e for e in range(count) if e not in experts]] = np.nan
    g = glow.GraphBuilder()
    own = g.placeholder("e", experts.shape, np.int64)
    g.save(g.one(ExpertMatmulOp, g.placeholder("x", x.shape), g.constant(w, "w"), own), "y")
    net = glow.compile(g, threads=threads)
    assert labels(net) == ["expert_matmul"]
    want = np.einsum("rk,rnk->rn", x.astype(np.float64), w[experts].astype(np.float64))
    np.testing.assert_allclose(net.run({"x": x, "e": experts})["y"], want, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_codes(form: tuple[int, int, bool, bool], size: tuple[int, ...], threads: int) -> None:
    """Weights of few bits by integers and by floats, with what follows in the kernel."""
    (bits, block, has_points, rounded), (m, n, k, count) = form, size
    r, experts = np.random.default_rng(0), chosen_of(m, count)
    x, other = (r.standard_normal(s).astype(np.float32) for s in ((m, k), (m, n)))
    codes = r.integers(0, 1 << bits, (count, n, k)).astype(np.uint8)
    scales = r.uniform(0.01, 0.1, (count, n, k // block)).astype(np.float32)
    scales[[e for e in range(count) if e not in experts]] = np.nan
    points = r.uniform(0, 9, scales.shape).astype(np.float32) if has_points else None
    point = 0.0 if has_points else float(1 << (bits - 1))
    g = glow.GraphBuilder()
    parts = [None if p is None else g.constant(p) for p in (pack(codes, bits), scales, points)]
    w = g.one(DequantizeBlocksOp, *parts, bits=bits, block=block, depth=k, point=point)
    a = g.placeholder("x", x.shape)
    a = g.one(RoundBlocksOp, a, block=block) if rounded else a
    y = g.one(ExpertMatmulOp, a, w, g.placeholder("e", experts.shape, np.int64))
    g.save(g.sigmoid(y) * g.placeholder("other", other.shape), "y")
    net = glow.compile(g, threads=threads)
    assert labels(net) == (["quantize_rows", "integer_block_gemm"] if rounded else ["block_gemm"])
    shift = np.repeat(points, block, 2) if points is not None else point
    wide = (codes - shift) * np.repeat(scales.astype(np.float64), block, 2)
    near = x.astype(np.float64)
    if rounded:
        runs = near.reshape(m, -1, block)
        peak = np.abs(runs).max(2, keepdims=True)
        near = (np.rint(runs * (127 / peak)) * peak / 127).reshape(m, k)
    sums = np.einsum("rk,rnk->rn", near, wide[experts])
    made = net.run({"x": x, "e": experts, "other": other})["y"]
    np.testing.assert_allclose(made, other / (1 + np.exp(-sums)), atol=1e-5 * np.abs(sums).max())


def test_code_for_any_number() -> None:
    """One kernel serves any number of experts and of columns."""

    def name(count: int, n: int) -> set[str]:
        g = glow.GraphBuilder()
        x, e = g.placeholder("x", (12, 32)), g.placeholder("e", (12,), np.int64)
        g.save(g.one(ExpertMatmulOp, x, g.constant(np.ones((count, n, 32), np.float32)), e), "y")
        return set(glow.compile(g).program.selection.kernels)  # pyright: ignore

    assert name(3, 64) == name(50, 128)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("wrong", [-1, 4, 1 << 40])
@pytest.mark.parametrize("form", ["floats", "halves", "codes", "integers", "computed"])
def test_experts_out_of_range(form: str, wrong: int, rows: int, backend: str) -> None:
    """The run ends with one message, whichever kernel computes it, and the next run is whole again."""
    r, g = np.random.default_rng(0), glow.GraphBuilder()
    x, w = r.standard_normal((rows, 32)).astype(np.float32), r.standard_normal((4, 20, 32)).astype(np.float32)
    feeds = {"x": x, "e": np.arange(rows) % 4}
    a, own = g.placeholder("x", x.shape), g.placeholder("e", (rows,), np.int64)
    if form in ("codes", "integers"):
        codes = r.integers(0, 256, (4, 20, 16)).astype(np.uint8)
        parts = g.constant(codes), g.constant(np.ones((4, 20, 1), np.float32))
        weights = g.one(DequantizeBlocksOp, *parts, bits=4, block=32, depth=32, point=8.0)
        a = g.one(RoundBlocksOp, a, block=32) if form == "integers" else a
    elif form == "computed":
        weights, feeds["w"] = g.placeholder("w", w.shape), w
    else:
        weights = g.constant(w.astype(np.float16) if form == "halves" else w)
    g.save(g.one(ExpertMatmulOp, a, weights, own), "y")
    net = glow.compile(g, backend=backend)
    want = net.run(feeds)["y"]
    bad = feeds["e"].copy()
    bad[-1] = wrong
    message = f"index {wrong} is out of range for 4 elements|a row names an expert that is none of 0 to 3$"
    with pytest.raises(glow.GlowError, match=f"^glow.expert_matmul: ({message})"):
        net.run({**feeds, "e": bad})
    np.testing.assert_array_equal(net.run(feeds)["y"], want)


def test_weights_that_are_computed() -> None:
    """Without constants to pack, the matrices that are named are gathered."""
    r, experts = np.random.default_rng(0), np.array([2, 0, 2], np.int64)
    x, w = r.standard_normal((3, 8)).astype(np.float32), r.standard_normal((4, 5, 8)).astype(np.float32)
    g = glow.GraphBuilder()
    y = g.one(ExpertMatmulOp, *(g.placeholder(n, a.shape) for n, a in (("x", x), ("w", w))), g.value(experts))
    g.save(y, "y")
    net = glow.compile(g)
    assert "gather" in labels(net)
    want = np.einsum("rk,rnk->rn", x, w[experts])
    np.testing.assert_allclose(net.run({"x": x, "w": w})["y"], want, atol=1e-5)
