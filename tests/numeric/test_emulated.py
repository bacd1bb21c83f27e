"""Kernels compiled for other machines, run by emulators and by Node, against the cards' references."""

from __future__ import annotations

import os

import numpy as np
import pytest
from emulated import TARGETS, EmulatedBackend, problems

import glow_compiler as glow
from glow_backends.conformance import Case, cases
from glow_backends.cpu.target import named
from glow_tools.machines import machine_for

#: `make machines` takes every sample everywhere.
EVERY = os.environ.get("GLOW_EVERY_CARD")
WHOLE = ("cortex-a72", "riscv64", "wasm32")
FEW = ("conv", "conv_transpose", "matmul", "quantized_conv", "softmax", "layer_norm", "lstm", "max_pool")


def needs(target: str) -> None:
    """Skip where the machine of a target is not installed."""
    if machine_for(named(target)).missing:
        pytest.skip(f"no {machine_for(named(target)).missing}")


def samples(target: str) -> list[Case]:
    """One sample of each operator and its element types; of other targets a few operators."""
    every = list(cases())
    if EVERY:
        return every
    if target not in WHOLE:
        return [c for card in FEW for c in list(cases([card]))[:4]]
    kinds = {(c.sample.op, *(a.dtype for a in c.sample.arrays())): c for c in reversed(every)}
    return list(kinds.values())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_operators(target: str) -> None:
    """What another machine computes is what the references compute."""
    needs(target)
    assert problems(target, samples(target)) == []


def keyword_spotting() -> tuple[glow.GraphBuilder, list[dict[str, np.ndarray]]]:
    """A network of the size that finds spoken words (DS-CNN of MLPerf Tiny), and inputs."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()

    def weights(*shape: int) -> glow.Value:
        values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return g.constant(values.astype(np.float32))

    y = g.placeholder("x", (1, 1, 49, 10))
    y = g.relu(g.conv(y, weights(64, 1, 10, 4), weights(64), pads=(4, 1, 5, 2), strides=(2, 2)))
    for _ in range(4):
        y = g.relu(g.conv(y, weights(64, 1, 3, 3), weights(64), pads=(1, 1, 1, 1), group=64))
        y = g.relu(g.conv(y, weights(64, 64, 1, 1), weights(64)))
    y = g.flatten(g.avg_pool(y, kernel=(25, 5), strides=(1, 1)))
    g.save(g.fully_connected(y, weights(64, 12), weights(12)), "y")
    inputs = [{"x": rng.standard_normal((1, 1, 49, 10)).astype(np.float32)} for _ in range(4)]
    return g, inputs


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "wasm32", "riscv64", "cortex-a72"])
def test_integers_are_equal(target: str) -> None:
    """A quantised network gives the interpreter's bits on every machine."""
    needs(target)
    network, inputs = keyword_spotting()
    module = glow.quantize(network, inputs, everything=True)
    expected = glow.compile(module, backend="interpreter").run(inputs[0])["y"]
    got = glow.compile(module, backend=EmulatedBackend(target)).run(inputs[0])["y"]
    np.testing.assert_array_equal(got, expected)
