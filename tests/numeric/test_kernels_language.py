"""Products of integers by weights of few bits, and attention over caches, against their references."""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.cpu.kernels.gemm.gemm_blocks import (
    BlockGemmSpec,
    block_scratch_bytes,
    emit_gemm_blocks,
    has_block_kernel,
    pack_codes,
    pack_scales,
)
from glow_backends.cpu.kernels.language.integer_block_gemm import (
    IntegerBlockGemmSpec,
    emit_integer_block_gemm,
    in_pairs,
    pack_integer_codes,
    pack_numbers,
    stored_point,
)
from glow_backends.cpu.kernels.language.quantize_rows import QuantizeRowsSpec, emit_quantize_rows
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import host
from glow_dialects.ops.cached_attention import CachedAttentionOp, CacheWriteOp
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp, pack
from glow_dialects.ops.matmul_half import MatmulHalfOp
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_passes.quantize.weight_blocks import quantize_blocks


@dataclass(frozen=True)
class Product:
    """Rows, columns and depth of a product, bits and block of its weights, whether blocks have points."""

    m: int
    n: int
    k: int
    bits: int
    block: int
    points: bool = False
    half: bool = True


PRODUCTS = {
    "row": Product(1, 64, 96, 4, 32),
    "row-tails": Product(1, 45, 128, 4, 64),
    "narrow": Product(2, 5, 32, 4, 32),
    "points": Product(3, 70, 96, 4, 32, points=True),
    "rows": Product(5, 33, 256, 4, 128, half=False),
    "many": Product(130, 50, 64, 4, 32, points=True),
    "bytes": Product(1, 40, 96, 8, 32),
    "byte-points": Product(3, 33, 64, 8, 32, points=True),
    "many-bytes": Product(71, 24, 256, 8, 128),
    "sixteens": Product(5, 33, 96, 4, 16, points=True),
    "byte-sixteens": Product(3, 40, 48, 8, 16),
    "byte-48": Product(3, 40, 96, 8, 48),
    "twos": Product(1, 45, 128, 2, 64),
    "two-points": Product(5, 33, 96, 2, 16, points=True),
    "many-twos": Product(71, 24, 256, 2, 32, half=False),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, threads: int) -> None:
    """Widths of codes, points, tails of columns and rows, an epilogue, in one kernel of integers."""
    p, r = PRODUCTS[name], np.random.default_rng(0)
    codes = r.integers(0, 1 << p.bits, (p.n, p.k)).astype(np.uint8)
    scales = r.uniform(0.01, 0.1, (p.n, p.k // p.block)).astype(np.float16 if p.half else np.float32)
    points = r.uniform(0, 9, scales.shape).astype(np.float32) if p.points else None
    bias, x = r.uniform(-1, 1, p.n).astype(np.float32), r.uniform(-1, 1, (p.m, p.k)).astype(np.float32)
    x[0, : p.block] = 0
    point = 0.0 if p.points else float(1 << (p.bits - 1))
    form = {"bits": p.bits, "block": p.block, "depth": p.k, "point": point}
    g = glow.GraphBuilder()
    numbers = [g.constant(pack(codes, p.bits), "c"), g.constant(scales.astype(np.float32), "s")]
    w = g.one(DequantizeBlocksOp, *numbers, None if points is None else g.constant(points, "p"), **form)
    rounded = g.one(RoundBlocksOp, g.placeholder("x", x.shape), block=p.block)
    g.save(g.relu(g.matmul(rounded, g.transpose(w)) + g.constant(bias, "b")), "y")
    net = glow.compile(g, threads=threads)
    labels = [call.label for call in net.program.selection.calls]  # pyright: ignore
    assert labels == ["glow_cpu_instr.quantize_rows", "glow_cpu_instr.integer_block_gemm"]
    shift = np.repeat(points, p.block, 1) if points is not None else point
    wide = (codes - shift) * np.repeat(scales.astype(np.float64), p.block, 1)
    parts = x.reshape(p.m, -1, p.block).astype(np.float64)
    peak = np.abs(parts).max(2, keepdims=True)
    near = np.rint(parts * np.divide(127, peak, out=np.zeros_like(peak), where=peak > 0)) * peak / 127
    want = np.maximum(near.reshape(p.m, p.k) @ wide.T + bias, 0)
    magnitude = (np.abs(x) @ np.abs(wide).T).max()
    np.testing.assert_allclose(net.run({"x": x})["y"], want, atol=1e-5 * magnitude)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("m", [1, 3, 70])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_halves(kind: type, m: int, threads: int) -> None:
    """Products by constants of 16 bits: one row, some, many; odd sizes."""
    r, (n, k) = np.random.default_rng(m), (37, 51)
    x, w = r.standard_normal((m, k)).astype(np.float32), r.standard_normal((n, k)).astype(kind)
    g = glow.GraphBuilder()
    g.save(g.one(MatmulHalfOp, g.placeholder("x", (m, k)), g.constant(w, "w")), "y")
    net = glow.compile(g, threads=threads)
    assert [call.label for call in net.program.selection.calls] == ["matmul_half"]  # pyright: ignore
    want = x.astype(np.float64) @ w.astype(np.float64).T
    np.testing.assert_allclose(net.run({"x": x})["y"], want, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_few_bits(bits: int) -> None:
    """Codes are near the weights; the range with the least error is at least as good as the whole one."""
    r = np.random.default_rng(0)
    w = r.standard_normal((30, 128)).astype(np.float32)
    w[3], w[4, :32] = 0, 1e-9
    codes, scales = quantize_blocks(w, bits, 32)
    half = 1 << (bits - 1)
    unpacked = np.stack([codes & 15, codes >> 4], 2).reshape(30, 128) if bits == 4 else codes
    near = (unpacked.astype(np.float32) - half) * np.repeat(scales, 32, 1)
    blocks = w.reshape(30, 4, 32)
    plain = np.abs(blocks).max(2, keepdims=True) / (half - 1)
    rounded = np.rint(blocks / np.maximum(plain, 1e-30)) * plain
    assert np.square(near - w).sum() <= np.square(rounded - blocks).sum()
    assert np.square(near - w).mean() < (0.012 if bits == 4 else 5e-5)


def test_important_inputs_are_nearer() -> None:
    """Where some inputs matter more, their errors become smaller in the mean."""
    w = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    importance = np.where(np.arange(64) % 8 == 0, 50.0, 1.0)

    def error(weigh: np.ndarray | None) -> float:
        codes, scales = quantize_blocks(w, 4, 32, weigh)
        near = (np.stack([codes & 15, codes >> 4], 2).reshape(64, 64) - 8.0) * np.repeat(scales, 32, 1)
        return float(np.square(near - w)[:, ::8].mean())

    assert error(importance) < error(None)


@pytest.mark.parametrize("threads", [1, 3])
def test_state_of_several_sequences(threads: int) -> None:
    """Caches as states: sequences in slots, with the tokens of each call written in place."""
    r, capacity = np.random.default_rng(0), 70
    g = glow.GraphBuilder()
    q, k = (g.placeholder(n, (2, 3, h, 16)) for n, h in (("q", 4), ("k", 2)))
    slots, starts = (g.placeholder(n, (2,), np.int32) for n in ("slots", "starts"))
    state = g.placeholder("keys", (3, 2, capacity, 16), kind="state")
    cache = g.one(CacheWriteOp, state, k, slots, starts)
    g.update(state, cache)
    g.save(g.one(CachedAttentionOp, q, cache, cache, slots, starts, scale=0.25), "y")
    net = glow.compile(g, threads=threads)
    keys = np.zeros((3, 70, 2, 16), np.float32)
    for start in (0, 3, 6, 60, 67):
        new, queries = (r.standard_normal((2, 3, h, 16)).astype(np.float32) for h in (2, 4))
        numbers = np.array([2, 0], np.int32), np.array([start, start // 2], np.int32)
        y = net.run({"q": queries, "k": new, "slots": numbers[0], "starts": numbers[1]})["y"]
        for b, (slot, first) in enumerate(zip(*numbers, strict=True)):
            keys[slot, first : first + 3] = new[b]
            for t, h in np.ndindex(3, 4):
                seen = keys[slot, : first + t + 1, h // 2].astype(np.float64)
                weights = np.exp(seen @ queries[b, t, h] * 0.25)
                np.testing.assert_allclose(y[b, t, h], weights @ seen / weights.sum(), atol=1e-5)


def test_states_change_hands() -> None:
    """One program on several states, two programs on one; what does not fit is refused."""
    g = glow.GraphBuilder()
    x, s = g.placeholder("x", (4,)), g.placeholder("s", (4,), kind="state")
    g.update(s, s + x)
    g.save(s + x, "y")
    for backend in ("cpu", "interpreter"):
        one, two = (glow.compile(g, backend=backend).program for _ in range(2))
        ones = {"x": np.ones(4, np.float32)}
        first, second = one.new_state(), one.new_state()
        second["s"][...] = 10
        one.use_state(first)
        assert one.run(ones)["y"][0] == 1
        one.use_state(second)
        assert one.run(ones)["y"][0] == 11
        two.use_state(second)
        assert two.run(ones)["y"][0] == 12 and first["s"][0] == 1 and second["s"][0] == 12
        with pytest.raises(glow.BindingError, match="state 's' is missing"):
            one.use_state({})
        with pytest.raises(glow.BindingError, match=r"state 's' is float32 \(5,\), expected float32 \(4,\)"):
            one.use_state({"s": np.zeros(64, np.float32)[:5]})


def test_update_is_for_states() -> None:
    """Inputs are only read, and a state keeps its type."""
    g = glow.GraphBuilder()
    x, s = g.placeholder("x", (4,)), g.placeholder("s", (4,), kind="state")
    with pytest.raises(glow.GlowError, match="the first operand is no state of the graph"):
        g.update(x, s)
    with pytest.raises(glow.ShapeError, match="update: 's' is tensor<4xf32>, the value tensor<2xf32>"):
        g.update(s, g.slice(x, (0,), (2,)))


@pytest.mark.parametrize("vector_bytes", [16, 32])
@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_short_vectors(bits: int, block: int, vector_bytes: int) -> None:
    """Sums of four products without instructions for them, and of pairs of products, as AVX2 has them."""
    target = replace(host(), vector_bytes=vector_bytes, has_vnni=False)
    if vector_bytes == 32 and host().vector_bytes < 32:
        pytest.skip("no AVX2 here")
    r, (m, n, k) = np.random.default_rng(bits), (9, 50, 128)
    codes = r.integers(0, 1 << bits, (n, k)).astype(np.uint8)
    scales = r.uniform(0.01, 0.1, (n, k // block)).astype(np.float32)
    x = r.standard_normal((m, k)).astype(np.float32)
    point = stored_point(bits, float(1 << (bits - 1)), target)
    rows = QuantizeRowsSpec(m * k // block, block, 16 if in_pairs(bits, target) else 8, point)
    whole = aligned(np.zeros((m, k), np.int16 if in_pairs(bits, target) else np.int8))
    factors, y = aligned(np.zeros((m, k // block, 2), np.float32)), aligned(np.zeros((m, n), np.float32))
    StandaloneKernel(emit_quantize_rows, rows, target)(whole, factors, aligned(x))
    spec = IntegerBlockGemmSpec(m, n, k, bits, block, point)
    packed = pack_integer_codes(codes, bits, target), pack_numbers(scales, target, False)
    StandaloneKernel(emit_integer_block_gemm, spec, target)(y, whole, factors, *map(aligned, packed))
    near = whole.astype(np.float64) * np.repeat(factors[..., 0], block, 1)
    np.testing.assert_allclose(near, x, atol=0.6 * factors[..., 0].max())
    want = near @ ((codes - float(1 << (bits - 1))) * np.repeat(scales, block, 1)).T
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("vector_bytes", [32, 64])
@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("bits", [2, 4])
def test_levels(bits: int, rows: int, vector_bytes: int) -> None:
    """Codes that stand for any numbers, looked up at once or in two halves as AVX2 does."""
    target = replace(host(), vector_bytes=vector_bytes, registers=32 if vector_bytes == 64 else 16)
    if host().vector_bytes < vector_bytes or "x86" not in target.triple:
        pytest.skip("no such vectors here")
    r, (n, k, block) = np.random.default_rng(bits), (50, 128, 32)
    levels = tuple(map(float, r.standard_normal(1 << bits).astype(np.float32)))
    assert has_block_kernel(bits, block, levels, target)
    codes = r.integers(0, 1 << bits, (n, k)).astype(np.uint8)
    scales = r.uniform(0.01, 0.1, (n, k // block)).astype(np.float32)
    x, y = r.standard_normal((rows, k)).astype(np.float32), aligned(np.zeros((rows, n), np.float32))
    spec = BlockGemmSpec(rows, n, k, bits, block, 0.0, levels)
    packed = [aligned(pack_codes(codes, spec, target)), aligned(pack_scales(scales, spec, target))]
    space = block_scratch_bytes(spec, target) // 4
    scratch = [aligned(np.zeros(space, np.float32))] if space else []
    StandaloneKernel(emit_gemm_blocks, spec, target)(y, aligned(x), *packed, *scratch)
    want = x @ (np.asarray(levels)[codes] * np.repeat(scales, block, 1)).T
    np.testing.assert_allclose(y, want, atol=1e-5 * np.abs(want).max())
