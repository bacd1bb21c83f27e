"""Products by weights of few bits against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from epilogues import residual_clip

from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.kernels.gemm.gemm_blocks import (
    BlockGemmSpec,
    block_scratch_bytes,
    emit_gemm_blocks,
    has_block_kernel,
    pack_codes,
    pack_scales,
)
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import host
from glow_dialects.ops.dequantize_blocks import E4M3, dequantize_blocks, pack

ALL = Epilogue(bias=True, program=residual_clip(-1.0, 1.0))
LEVELS = tuple(float(x) for x in np.linspace(-1, 1, 16) ** 3)
SPECS = {
    "row": BlockGemmSpec(1, 128, 256, 4, 32, 8.0),
    "row-tails": BlockGemmSpec(1, 91, 150, 4, 32, 8.0, epilogue=ALL),
    "narrow": BlockGemmSpec(2, 5, 16, 4, 16, 8.0),
    "points": BlockGemmSpec(1, 70, 96, 4, 32, offsets=True, epilogue=ALL),
    "rows": BlockGemmSpec(5, 130, 131, 4, 128, 8.0, epilogue=ALL),
    "eight": BlockGemmSpec(8, 48, 64, 4, 16, offsets=True),
    "bytes": BlockGemmSpec(1, 83, 100, 8, 32, 128.0, epilogue=ALL),
    "byte-points": BlockGemmSpec(3, 83, 100, 8, 16, offsets=True),
    "two-bits": BlockGemmSpec(2, 40, 70, 2, 16, 2.0),
    "one-bit": BlockGemmSpec(2, 40, 70, 1, 64, 0.5),
    "levels": BlockGemmSpec(4, 64, 128, 4, 64, levels=LEVELS),
    "floats": BlockGemmSpec(1, 83, 256, 8, 128, levels=E4M3, epilogue=ALL),
    "floats-rows": BlockGemmSpec(5, 130, 131, 8, 32, 1.5, levels=E4M3),
    "floats-points": BlockGemmSpec(2, 70, 96, 8, 32, levels=E4M3, offsets=True),
    "many-floats": BlockGemmSpec(40, 91, 1100, 8, 64, levels=E4M3),
    "many": BlockGemmSpec(37, 91, 150, 4, 32, 8.0, epilogue=ALL),
    "many-deep": BlockGemmSpec(33, 70, 2100, 4, 32, offsets=True, epilogue=ALL),
    "many-bytes": BlockGemmSpec(300, 64, 1100, 8, 64, 128.0),
    "many-levels": BlockGemmSpec(20, 33, 130, 4, 64, levels=LEVELS),
}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SPECS)
def test_products(name: str, threads: int) -> None:
    """Widths of codes, points, tails of every axis, slices of the reduction and epilogues."""
    spec, target, r = SPECS[name], host(threads), np.random.default_rng(0)
    if not has_block_kernel(spec.bits, spec.block, spec.levels, target):
        pytest.skip("this CPU has no lookup of sixteen numbers")
    blocks = -(-spec.k // spec.block)
    codes = r.integers(0, 1 << spec.bits, (spec.n, spec.k)).astype(np.uint8)
    if spec.levels is E4M3:
        codes[codes & 0x7F == 0x7F] = 0x7E  # no numbers
    scales = r.uniform(0.01, 0.1, (spec.n, blocks)).astype(np.float32)
    points = r.integers(0, 1 << spec.bits, scales.shape).astype(np.float32) if spec.offsets else None
    form = {"bits": spec.bits, "block": spec.block, "depth": spec.k, "point": spec.point}
    weights = dequantize_blocks(pack(codes, spec.bits), scales, points, levels=spec.levels, **form)  # pyright: ignore
    a = r.uniform(-1, 1, (spec.m, spec.k)).astype(np.float32)
    want = a.astype(np.float64) @ weights.T.astype(np.float64)
    inputs = [a, pack_codes(codes, spec, target), pack_scales(scales, spec, target)]
    if points is not None:
        inputs.append(pack_scales(-points * scales, spec, target))
    if spec.epilogue.bias:
        bias, residual = (r.uniform(-1, 1, shape).astype(np.float32) for shape in ((spec.n,), want.shape))
        inputs += [bias, residual]
        want = np.clip(want + bias + residual, -1, 1)
    if size := block_scratch_bytes(spec, target):
        inputs.append(np.full(size // 4, np.nan, np.float32))
    c = aligned(np.full(want.shape, np.nan, np.float32))
    StandaloneKernel(emit_gemm_blocks, spec, target)(c, *[aligned(v) for v in inputs])
    magnitude = float((np.abs(a) @ np.abs(weights).T).max())
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=3e-6 * magnitude)
