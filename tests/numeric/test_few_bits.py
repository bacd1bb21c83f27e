"""Weights of few bits stay packed in a product where its kernel can read them, and are floats elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.passes.cpu_fuse import CpuFusePass
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp, pack

LEVELS = tuple(float(x) for x in np.linspace(-1, 1, 16) ** 3)
R = np.random.default_rng(0)


def product(
    *,
    rows: int = 3,
    bits: int = 4,
    block: int = 16,
    points: bool = False,
    batch: tuple[int, ...] = (),
    kind: Any = np.float32,
    known: bool = True,
    **more: Any,
) -> tuple[Graph, Array]:
    """gemm(a, dequantize_blocks(codes, scales)) of 32 columns, and its numbers by NumPy in float64."""
    g = Graph()
    codes = R.integers(0, 1 << bits, (*batch, 32, 32)).astype(np.uint8)
    scales = R.uniform(0.1, 1, (*batch, 32, 32 // block)).astype(kind)
    zeros = R.integers(0, 1 << bits, scales.shape).astype(kind) if points else None
    a = R.uniform(-1, 1, (rows, 32)).astype(kind)
    levels = more.pop("levels", None)
    real = codes.astype(np.float64) if levels is None else np.asarray(levels)[codes]
    real -= np.repeat(zeros, block, -1) if zeros is not None else 8.0 if levels is None else 0.0
    real *= np.repeat(scales, block, -1)
    declare = g.constant if known else g.input
    form: dict[str, Any] = {"bits": bits, "block": block, "depth": 32, "levels": levels}
    form["point"] = 8.0 if zeros is None and levels is None else 0.0
    operands = [g.constant(pack(codes, bits)), declare(scales), None if zeros is None else declare(zeros)]
    w = g.b(DequantizeBlocksOp(*operands, **form))
    form = {"transpose_b": True, **more}
    stored = a.T.copy() if form.get("transpose_a") else a
    g.save(g.b(GemmOp(g.input(stored), w, None, [], **form)))
    right = np.swapaxes(real, -1, -2) if form["transpose_b"] else real
    return g, a.astype(np.float64) @ right * form.get("scale", 1.0)


def kernels(g: Graph, want: Array, cpu: str = "znver5") -> list[str]:
    """The operators after the pass, which compute what is wanted."""
    CpuFusePass(cpu=cpu).apply(context(), g.module)
    g.module.verify()
    np.testing.assert_allclose(
        g.run()[0], want, rtol=1e-4, atol=3e-2 if g.run()[0].dtype == np.float16 else 1e-4
    )
    return [op.removeprefix("glow_cpu.") for op in g.ops()]


@pytest.mark.parametrize(
    "case",
    [{}, {"points": True}, {"bits": 8}, {"bits": 2}, {"levels": LEVELS}, {"rows": 1}],
    ids=lambda case: " ".join(case) or "plain",
)
def test_packed(case: dict[str, Any]) -> None:
    """Codes of every form that the kernel has."""
    assert kernels(*product(**case)) == ["block_gemm"]


@pytest.mark.parametrize(
    "case",
    [
        {"transpose_b": False},
        {"transpose_a": True},
        {"scale": 0.5},
        {"batch": (2,)},
        {"bits": 1, "block": 16},
        {"rows": 0},
        {"kind": np.float16},
    ],
    ids=lambda case: " ".join(case),
)
def test_floats(case: dict[str, Any]) -> None:
    """Products that the kernel does not have take the weights as floats, computed once."""
    assert kernels(*product(**case)) == ["gemm"]


@pytest.mark.parametrize(("cpu", "kernel"), [("haswell", "block_gemm"), ("x86-64-v2", "gemm")])
def test_lookups_of_other_processors(cpu: str, kernel: str) -> None:
    """Levels need an instruction that looks up sixteen numbers, or eight twice; x86-64-v2 has none."""
    assert kernels(*product(levels=LEVELS), cpu=cpu) == [kernel]


@pytest.mark.parametrize("points", [False, True])
def test_changing_scales(points: bool) -> None:
    """Scales that are given with each call can be neither packed nor computed once."""
    assert kernels(*product(known=False, points=points)) == ["dequantize_blocks", "gemm"]
