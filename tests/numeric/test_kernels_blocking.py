"""Layout changes of the CPU backend against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_runner import run_kernel

from glow_backends.cpu.kernels.data.blocking import BlockingSpec, blocking_shapes, emit_blocking
from glow_backends.cpu.target import host
from glow_dialects.core.blocks import block_channels, unblock_channels

SPECS = {
    "whole": BlockingSpec(2, 32, 64),
    "tails": BlockingSpec(2, 37, 49),
    "few-channels": BlockingSpec(1, 3, 35),
    "one-pixel": BlockingSpec(3, 40, 1),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SPECS)
def test_blocking(name: str, threads: int, last: bool) -> None:
    """There and back, with tails of channels and pixels."""
    spec, lanes = replace(SPECS[name], channels_last=last), host().lanes
    shapes = blocking_shapes(spec, lanes)
    plain = np.random.default_rng(0).standard_normal(shapes[1]).astype(np.float32)
    first = np.moveaxis(plain, -1, 1) if last else plain
    (got,) = run_kernel(emit_blocking, spec, [(shapes[0], np.float32)], [plain], threads)
    np.testing.assert_array_equal(got, block_channels(first, lanes))
    back = replace(spec, unblock=True)
    (again,) = run_kernel(emit_blocking, back, [(shapes[1], np.float32)], [got], threads)
    np.testing.assert_array_equal(again, plain)
    assert (unblock_channels(got, spec.channels) == first).all()
