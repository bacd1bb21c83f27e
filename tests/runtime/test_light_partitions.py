"""The light models of the ONNX package, cut into 2, 3 and 4 partitions: the bits of the undivided program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from host_networks import same

import glow_compiler as glow

pytestmark = pytest.mark.slow

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MODELS = sorted(path.stem for path in LIGHT.glob("light_*.onnx"))


@pytest.mark.parametrize("model", MODELS)
def test_partitions_give_the_same_bits(model: str) -> None:
    """By time, on threads, processes and both; by memory where no constant is too large for a device."""
    path = LIGHT / f"{model}.onnx"
    net = glow.compile(path)
    rng = np.random.default_rng(0)
    inputs = {s.name: rng.standard_normal([d or 1 for d in s.shape]).astype(s.dtype) for s in net.inputs}
    wanted = net.run(inputs)
    sizes: list[int] = []
    for count, devices in ((2, ["cpu"] * 2), (3, ["cpu", "process"]), (4, ["process"] * 2)):
        with glow.HostManager(devices) as host:
            network = host.add_network("net", path, partition=count)
            assert len(network.partitions) == count
            same(host.run("net", inputs), wanted)
            sizes = [p.constant_bytes for p in network.partitions]
    for count in (2, 3, 4):
        memory = max(2 * sum(sizes) // count, max(sizes))
        with glow.HostManager([glow.Device(memory=memory)] * count) as host:
            host.add_network("net", path)
            same(host.run("net", inputs), wanted)
            assert all(c.used <= memory for c in host.device_statistics().values())
