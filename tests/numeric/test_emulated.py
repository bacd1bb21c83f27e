"""Kernels compiled for other machines, run by emulators and by Node, against the cards' references."""

from __future__ import annotations

import os

import numpy as np
import pytest
from emulated import MACHINES, EmulatedBackend

import glow_compiler as glow
from glow_backends.conformance import Case, cases, check_case

# A few of each: every case is linked and run twice by the emulator. `make machines` runs all.
FEW = ("conv", "conv_transpose", "matmul", "quantized_conv", "softmax", "layer_norm", "lstm", "max_pool")
EVERY = os.environ.get("GLOW_EVERY_CARD")
SAMPLES = list(cases()) if EVERY else [c for card in FEW for c in list(cases([card]))[:4]]


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("case", SAMPLES, ids=lambda c: c.name)
def test_machine(case: Case, target: str) -> None:
    """What the emulator computes is what the reference computes."""
    machine = MACHINES[target]
    if machine.missing:
        pytest.skip(f"no {machine.missing}")
    outcome = check_case(EmulatedBackend(machine), case, "constants")
    assert outcome.status == "agrees", outcome


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


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "wasm32", "riscv64", "cortex-a72"])
def test_integers_are_equal(target: str) -> None:
    """A quantised network gives the interpreter's bits on every machine."""
    machine = MACHINES[target]
    if machine.missing:
        pytest.skip(f"no {machine.missing}")
    network, inputs = keyword_spotting()
    module = glow.quantize(network, inputs, everything=True)
    expected = glow.compile(module, backend="interpreter").run(inputs[0])["y"]
    got = glow.compile(module, backend=EmulatedBackend(machine)).run(inputs[0])["y"]
    np.testing.assert_array_equal(got, expected)
