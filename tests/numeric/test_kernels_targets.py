"""Kernels of convolutions and products for other CPUs: run where this machine can, else assembled."""

from __future__ import annotations

import numpy as np
import pytest

from glow_backends.cpu.jit import emit_object, new_module
from glow_backends.cpu.kernels.blocking import BlockingSpec, emit_blocking
from glow_backends.cpu.kernels.conv_direct import DirectConvSpec, emit_conv_direct
from glow_backends.cpu.kernels.conv_plane import PlaneConvSpec, emit_conv_plane
from glow_backends.cpu.kernels.depthwise import emit_depthwise
from glow_backends.cpu.kernels.epilogue import Epilogue, EpilogueStep
from glow_backends.cpu.kernels.gemm import GemmSpec, emit_gemm, gemm_scratch_bytes, pack_b
from glow_backends.cpu.kernels.standalone import StandaloneKernel, aligned
from glow_backends.cpu.kernels.winograd import WinogradSpec, emit_winograd
from glow_backends.cpu.target import named

STEPS = Epilogue(bias=True, steps=(EpilogueStep("add"), EpilogueStep("swish", (1.0,))))
CONV = DirectConvSpec(1, 24, 40, (9, 13), (3, 3), pads=(1,) * 4, epilogue=STEPS)
KERNELS = {
    "direct": (emit_conv_direct, CONV),
    "winograd2": (emit_winograd, WinogradSpec(CONV, 2)),
    "winograd4": (emit_winograd, WinogradSpec(CONV, 4)),
    "first": (emit_conv_direct, DirectConvSpec(1, 3, 16, (9, 9), (3, 3), (2, 2), plain_input=True)),
    "depthwise": (emit_depthwise, DirectConvSpec(1, 24, 24, (9, 9), (3, 3), group=24, epilogue=STEPS)),
    "plane": (emit_conv_plane, PlaneConvSpec(1, 8, 2, (9, 40), (3, 3), epilogue=STEPS)),
    "gemm": (emit_gemm, GemmSpec(37, 45, 60, packed_b=True, epilogue=STEPS)),
    "gemm-transposed": (emit_gemm, GemmSpec(37, 45, 60, trans_b=True)),
    "block": (emit_blocking, BlockingSpec(1, 20, 30)),
    "unblock": (emit_blocking, BlockingSpec(1, 20, 30, unblock=True)),
}


@pytest.mark.parametrize("cpu", ["haswell", "znver4", "neoverse-n1"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_assembles(name: str, cpu: str) -> None:
    """Every kernel verifies and becomes an object for 8, 16 and 4 lanes."""
    emit, spec = KERNELS[name]
    target = named(cpu)
    module = new_module("kernel", target)
    emit(module, "kernel", spec, target).linkage = "external"
    assert emit_object(module, target).startswith(b"\x7fELF")


@pytest.mark.parametrize("spec", [GemmSpec(37, 45, 60), GemmSpec(1, 70, 33, trans_b=True)], ids=repr)
def test_product_on_avx2(spec: GemmSpec) -> None:
    """Products with 8 lanes, packed and not (networks on AVX2 are in test_cpu_graph)."""
    target = named("haswell")
    random = np.random.default_rng(0)
    a = random.standard_normal((spec.m, spec.k)).astype(np.float32)
    b = random.standard_normal((spec.n, spec.k) if spec.trans_b else (spec.k, spec.n)).astype(np.float32)
    want = a @ (b.T if spec.trans_b else b)
    for packed in (False, True):
        chosen = GemmSpec(spec.m, spec.n, spec.k, trans_b=spec.trans_b, packed_b=packed)
        operands = [np.zeros_like(want), a, pack_b(b, chosen, target) if packed else b]
        if size := gemm_scratch_bytes(chosen, target):
            operands.append(np.zeros(size // 4, np.float32))
        operands = [aligned(o) for o in operands]
        StandaloneKernel(emit_gemm, chosen, target)(*operands)
        np.testing.assert_allclose(operands[0], want, rtol=1e-4, atol=1e-5)
