"""Kernels of which other shapes need no others: a program for another shape finds them compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from glow_backends.cpu.calls import Emitter, KernelCall, KernelCodes
from glow_backends.cpu.kernels.conv_direct import emit_conv_direct
from glow_backends.cpu.kernels.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.depthwise import emit_depthwise
from glow_backends.cpu.kernels.epilogue import Epilogue
from glow_backends.cpu.kernels.gemm import GemmSpec, emit_gemm
from glow_backends.cpu.target import named


def depthwise(width: int) -> tuple[Emitter, Any]:
    """A depthwise convolution of 3x3."""
    return emit_depthwise, DirectConvSpec(1, 16, 16, (9, width), (3, 3), pads=(1,) * 4, group=16)


def pointwise(batch: int, pixels: int) -> tuple[Emitter, Any]:
    """A convolution of 1x1 with many weights and small images."""
    return emit_conv_direct, DirectConvSpec(batch, 1024, 256, (1, pixels), (1, 1))


def product(rows: int) -> tuple[Emitter, Any]:
    """A product with weights."""
    return emit_gemm, GemmSpec(rows, 120, 240, packed_b=True, epilogue=Epilogue(bias=True))


SHARED: dict[str, tuple[Callable[..., tuple[Emitter, Any]], Iterable[tuple[int, ...]]]] = {
    "depthwise, any width": (depthwise, [(56,), (61,), (80,), (100,), (113,), (160,)]),
    "products of most numbers of rows": (product, [(32,), (40,), (50,), (66,), (77,)]),
    "1x1, any batch and size": (pointwise, [(1, 49), (2, 49), (1, 50), (3, 49)]),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared(name: str) -> None:
    """All shapes are the same code."""
    made, shapes = SHARED[name]
    codes = KernelCodes(named("skylake-avx512"))
    assert len({codes.of(KernelCall(*made(*shape), ())).name for shape in shapes}) == 1
