"""Matrix product kernels of the CPU backend against NumPy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from epilogues import chain, residual_clip
from llvmlite import ir

from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.row_runs import cut_cheaply, rows_of_tiles
from glow_backends.cpu.kernels.gemm.gemm import (
    GemmSpec,
    Source,
    emit_gemm,
    gemm_scratch_bytes,
    pack_b,
    plan_gemm,
)
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import host, named

ALL = Epilogue(bias=True, scale=0.5, program=residual_clip(0.0, 1.0))
SPECS = {
    "square": GemmSpec(64, 64, 64),
    "tails": GemmSpec(37, 71, 19, epilogue=ALL),
    "tiny": GemmSpec(1, 1, 1, epilogue=ALL),
    "row": GemmSpec(1, 300, 129, epilogue=ALL),
    "row-narrow": GemmSpec(1, 10, 83, epilogue=Epilogue(bias=True)),
    "column": GemmSpec(50, 1, 40),
    "aliased": GemmSpec(33, 48, 1024, epilogue=Epilogue(program=chain("relu"))),
    "few": GemmSpec(3, 200, 40),
    "batch": GemmSpec(9, 33, 17, a_batch=(3, 2), b_batch=(3, 2), epilogue=ALL),
    "batch-broadcast": GemmSpec(20, 40, 18, a_batch=(2, 1, 3), b_batch=(4, 1)),
    "batch-rows": GemmSpec(5, 40, 18, a_batch=(2, 3), epilogue=ALL),
    "batch-of-b": GemmSpec(5, 40, 18, b_batch=(3,)),
    "deep": GemmSpec(40, 40, 9000, epilogue=ALL),
    "far-rows": GemmSpec(10, 1030, 1200, epilogue=ALL),
    "tall": GemmSpec(3001, 40, 300, epilogue=ALL),
}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Uniform values in [-1, 1)."""
    return np.random.default_rng(seed + sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def check(spec: GemmSpec, threads: int, live: np.ndarray | None = None) -> None:
    """Run a spec and compare it with NumPy; rows that are not `live` stay as they were."""
    target = host(threads)
    a_shape = (spec.k, spec.m) if spec.trans_a else (spec.m, spec.k)
    b_shape = (spec.n, spec.k) if spec.trans_b else (spec.k, spec.n)
    a, b = random(*spec.a_batch, *a_shape), random(*spec.b_batch, *b_shape, seed=1)
    c = aligned(np.full((*spec.batch, spec.m, spec.n), np.nan, np.float32))
    bias, residual = random(spec.n, seed=2), random(*c.shape, seed=3)
    epilogue = spec.epilogue
    a64 = np.swapaxes(a, -1, -2) if spec.trans_a else a
    b64 = np.swapaxes(b, -1, -2) if spec.trans_b else b
    want = a64.astype(np.float64) @ b64.astype(np.float64)
    inputs = [a, pack_b(b, spec, target) if spec.packed_b else b]
    if epilogue.scale is not None:
        want *= epilogue.scale
    if epilogue.bias:
        want += bias
        inputs.append(bias)
    if epilogue.extras:
        want += residual
        inputs.append(residual)
    if live is not None:
        inputs.append(live)
        want[~live] = np.nan
    if size := gemm_scratch_bytes(spec, target):
        inputs.append(np.full(size // 4, np.nan, np.float32))
    if epilogue.program.steps:
        bounds = epilogue.program.steps[-1].params or (0.0, np.inf)
        low, high = np.array(bounds, np.float64)
        want = np.clip(want, low, high)
    kernel = StandaloneKernel(emit_gemm, spec, target)
    kernel(c, *[aligned(v) for v in inputs])
    np.testing.assert_allclose(c, want, rtol=1e-4, atol=1e-6 * spec.k**0.5 + 1e-6 * spec.k**0.5)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SPECS)
def test_gemm(name: str, threads: int) -> None:
    """Sizes with and without tails, batches, and every transposition."""
    spec = SPECS[name]
    if threads == 1:
        check(spec, threads)
        check(replace(spec, trans_a=True, trans_b=True), threads)
    else:
        check(replace(spec, trans_b=True, packed_b=True), threads)
        check(replace(spec, trans_a=True, packed_b=True), threads)


def test_sources_of_b() -> None:
    """Each of the three ways to read B is taken."""
    target = host()
    many, one = GemmSpec(64, 64, 64), GemmSpec(1, 64, 64)
    assert plan_gemm(replace(many, packed_b=True), target).source is Source.PANELS
    assert plan_gemm(many, target).source is Source.SCRATCH
    assert plan_gemm(one, target).source is Source.DIRECT
    assert plan_gemm(replace(one, trans_b=True), target).source is Source.SCRATCH


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "cortex-a72"])
def test_blocks_fit_registers(cpu: str) -> None:
    """Whatever the shape, the sums of a block fit the target's registers."""
    target = named(cpu)
    for m, n in ((1, 1000), (7, 64), (100, 100), (512, 512), (49, 2048)):
        block = plan_gemm(GemmSpec(m, n, 256, packed_b=True), target).block
        assert block.rows * block.vectors + min(block.vectors, 2) < target.registers


@pytest.mark.parametrize("k", [9215, 9216, 4096])
@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_weights_are_fetched_a_few_at_a_time(cpu: str, k: int) -> None:
    """One row's weights are fetched ahead by a few instructions in a loop, whatever divides its length."""
    module = ir.Module("test")
    emit_gemm(module, "kernel", GemmSpec(1, 4096, k, packed_b=True), named(cpu, 1))
    fetches = str(module).count('call void @"llvm.prefetch')
    assert 0 < fetches < 200


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.04, 0.5, 0.97, 1.0])
@pytest.mark.parametrize(
    "spec",
    [
        GemmSpec(37, 71, 19, epilogue=ALL),
        GemmSpec(200, 64, 32, packed_b=True),
        GemmSpec(3001, 40, 300, epilogue=Epilogue(bias=True), packed_b=True),
        GemmSpec(12, 40, 9000, epilogue=ALL),
        GemmSpec(1, 30, 12),
    ],
    ids=str,
)
def test_some_rows(spec: GemmSpec, share: float, threads: int) -> None:
    """The rows of a predicate are computed and no others."""
    live = np.random.default_rng(1).random(spec.m) < share
    check(replace(spec, some_rows=True), threads, live)


@pytest.mark.parametrize("rows", [1, 2, 6, 8, 14, 28])
@pytest.mark.parametrize("total", [*range(1, 40), 333])
def test_every_open_row_is_in_one_tile(total: int, rows: int) -> None:
    taken: list[int] = []
    numbers = cut_cheaply(total, rows)
    for size, start, stop, last in zip(
        rows_of_tiles(rows), numbers[::3], numbers[1::3], numbers[2::3], strict=True
    ):
        for tile in range(start, stop):
            first = last - (stop - 1 - tile) * size
            taken += range(first, first + size)
    assert taken == list(range(total))


@pytest.mark.parametrize("total", range(1, 28))
def test_open_rows_are_cut_at_the_least_cost(total: int) -> None:
    """Tiles of one or two rows take the time of three: all choices of up to five tiles are tried."""
    sizes, numbers = rows_of_tiles(14), cut_cheaply(total, 14)

    def cost(tiles: Sequence[int]) -> float:
        return sum(max(size + 0.3, 3.0) for size in tiles)

    chosen = [
        s for s, low, high in zip(sizes, numbers[::3], numbers[1::3], strict=True) for _ in range(low, high)
    ]
    choices = (c for count in range(1, 6) for c in combinations_with_replacement(sizes, count))
    assert cost(chosen) == pytest.approx(min(cost(c) for c in choices if sum(c) == total))
