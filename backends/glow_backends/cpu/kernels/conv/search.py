"""Measured choice among the algorithms of a convolution; findings are kept in the object cache."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glow_backends.cpu import cache
from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.kernel import S
from glow_backends.cpu.kernels.conv.blocked_conv import BlockedConv
from glow_backends.cpu.kernels.conv.conv_direct import DirectConv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.winograd import WinogradConv, tile_of
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array

ROUNDS = 4
"""Every copy of the weights passes so often; the best time counts."""
COLD_BYTES = 48 * 1024 * 1024
"""Copies of the weights that pass in turn, so that they come from where a network's weights do."""


def fastest(spec: DirectConvSpec, algorithms: Sequence[str], target: CpuTarget) -> str:
    """The algorithm of least measured time on this machine, from the cache where it was measured."""
    name = f"search_{cache.key(repr(spec), repr(target), *algorithms)}"
    data = cache.get(name)
    if data is None:
        seconds = {a: measured_seconds(spec, a, target) for a in algorithms}
        data = json.dumps(seconds).encode()
        cache.put(name, data)
    times: dict[str, float] = json.loads(data)
    return min(times, key=lambda algorithm: times[algorithm])


def measured_seconds(spec: DirectConvSpec, algorithm: str, target: CpuTarget) -> float:
    """Best time of one run on random data, all workers one after another."""
    lanes = target.lanes
    random = np.random.default_rng(0)

    def blocked(channels: int, size: tuple[int, int]) -> Array:
        shape = (spec.batch, ceil_div(channels, lanes), *size, lanes)
        return aligned(random.standard_normal(shape).astype(np.float32))

    shape = (spec.out_channels, spec.in_channels // spec.group, *spec.kernel)
    plain = random.standard_normal(shape).astype(np.float32)
    tile = tile_of(algorithm)
    if tile:
        run, packed, scratch = _ready(WinogradConv(), WinogradSpec(spec, tile), plain, target)
    else:
        run, packed, scratch = _ready(DirectConv(), replace(spec, uneven=True), plain, target)
    result = blocked(spec.out_channels, spec.out_size)
    others = [aligned(np.zeros(result.shape[1] * lanes, np.float32))] * spec.epilogue.bias
    others += [result] * spec.epilogue.extras
    source = blocked(spec.in_channels, spec.size)
    copies = [aligned(packed) for _ in range(max(1, min(16, COLD_BYTES // packed.nbytes)))]
    best = float("inf")
    for _ in range(ROUNDS):
        for weights in copies:
            start = time.perf_counter()
            run(result, source, weights, *others, *scratch)
            best = min(best, time.perf_counter() - start)
    return best


def _ready(
    kernel: BlockedConv[S], spec: S, weights: Array, target: CpuTarget
) -> tuple[StandaloneKernel, Array, list[Array]]:
    """A kernel, its packed weights and its scratch."""
    size = kernel.scratch(spec, target)
    scratch = [aligned(np.zeros(size, np.uint8))] if size else []
    return StandaloneKernel(kernel.emit, spec, target), kernel.pack(weights, spec, target), scratch
