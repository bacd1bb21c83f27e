"""The example of an accelerator: conformant, the same numbers with and without hiding, in fewer cycles."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.conformance import check_backend
from glow_dialects.core.types import Array
from glow_passes.instr.simulate import Timeline
from glow_tools import run

FOLDER = Path(__file__).parents[2] / "examples/npu"
LAYERS = ("conv", "fully_connected", "quantized_conv", "quantized_fully_connected")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example, loaded from its file."""
    spec = importlib.util.spec_from_file_location("glow_npu", FOLDER / "glow_npu.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["glow_npu"] = module
    spec.loader.exec_module(module)
    return module


def random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def perceptron() -> tuple[glow.GraphBuilder, Array]:
    """Two layers of 64 rows."""
    g = glow.GraphBuilder()
    hidden = g.relu(g.fully_connected(g.placeholder("x", (64, 256)), g.constant(random(256, 512), "w"), None))
    g.save(g.fully_connected(hidden, g.constant(random(512, 64), "v"), g.constant(random(64), "b")), "y")
    return g, random(64, 256)


def network() -> tuple[glow.GraphBuilder, Array]:
    """Convolutions with and without border, of several images, whose tiles do not divide their sizes."""
    g = glow.GraphBuilder()
    first = g.constant(random(40, 3, 3, 3), "f")
    y = g.relu(g.conv(g.placeholder("x", (2, 3, 29, 31)), first, pads=(1, 1, 1, 1), strides=(2, 2)))
    y = g.max_pool(g.conv(y, g.constant(random(72, 40, 3, 3), "s")), kernel=(2, 2), strides=(2, 2))
    g.save(g.conv(y, g.constant(random(33, 72, 1, 1), "p"), g.constant(random(33), "b")), "y")
    return g, random(2, 3, 29, 31)


def timeline_of(net: Any) -> Timeline:
    """The cycles of a compiled network."""
    return net.program.timeline()


Model = Callable[[], tuple[glow.GraphBuilder, Array]]


@pytest.mark.slow
def test_layers_are_conformant(example: ModuleType) -> None:
    report = check_backend(example.NpuBackend(), LAYERS)
    assert not report.failures(), report
    assert report.counts().keys() == {"agrees"}


@pytest.mark.slow
def test_example_is_conformant(example: ModuleType) -> None:
    """All cards agree with their references: on the device, or on the host."""
    report = check_backend(example.NpuBackend())
    assert not report.failures(), report


def test_example_is_short() -> None:
    assert len((FOLDER / "glow_npu.py").read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.slow
@pytest.mark.parametrize("model", [perceptron, network])
def test_numbers_and_cycles(example: ModuleType, model: Model) -> None:
    """Transfers may come early or late; hiding takes most of the waiting."""
    graph, data = model()
    want = glow.compile(graph, backend="interpreter").run({"x": data})["y"]
    cycles = {}
    for hide in (False, True):
        for late in (False, True):
            net = glow.compile(graph, backend=example.NpuBackend(hide=hide, late=late))
            got = net.run({"x": data})["y"]
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
            cycles[hide] = timeline_of(net)
    assert cycles[True].busy() == cycles[False].busy()
    assert cycles[True].cycles < 0.85 * cycles[False].cycles
    assert cycles[True].busy()["matrix"] > 0


@pytest.mark.slow
def test_hiding_meets_the_bound(example: ModuleType) -> None:
    """Of the layers of a perceptron, less than a tenth is lost."""
    timeline = timeline_of(glow.compile(perceptron()[0], backend=example.NpuBackend()))
    assert timeline.cycles <= 1.1 * timeline.bound


@pytest.mark.slow
@pytest.mark.parametrize("model", [perceptron, network])
def test_quantized_networks_are_bit_exact(example: ModuleType, model: Model) -> None:
    """Stored integers, of the matrix unit as of the interpreter."""
    graph, data = model()
    quantized = glow.quantize(graph, [{"x": data}], everything=True)
    want = glow.compile(quantized, backend="interpreter").run({"x": data})["y"]
    net = glow.compile(quantized, backend=example.NpuBackend())
    np.testing.assert_array_equal(net.run({"x": data})["y"], want)
    assert timeline_of(net).busy()["matrix"] > 0


def mobile() -> tuple[glow.GraphBuilder, Array]:
    """An inverted residual: a depthwise convolution between two of single pixels, and a sum."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 16, 20, 20))
    y = g.relu(g.conv(x, g.constant(random(48, 16, 1, 1), "expand")))
    y = g.conv(y, g.constant(random(48, 1, 3, 3), "depth"), pads=(1, 1, 1, 1), group=48)
    y = g.add(g.conv(g.relu(y), g.constant(random(16, 48, 1, 1), "project")), x)
    g.save(g.reduce_mean(g.relu(y), axes=(2, 3)), "y")
    return g, random(1, 16, 20, 20)


@pytest.mark.slow
def test_residuals_are_added_to_tiles(example: ModuleType) -> None:
    """What follows a layer is done where its tiles are; depthwise layers are vector work."""
    graph, data = mobile()
    want = glow.compile(graph, backend="interpreter").run({"x": data})["y"]
    net: Any = glow.compile(graph, backend=example.NpuBackend())
    np.testing.assert_allclose(net.run({"x": data})["y"], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    events = {(event.name, event.unit) for event in timeline_of(net).events}
    assert {("add", "vector"), ("relu", "vector"), ("conv", "vector")} <= events
    quantized = glow.quantize(graph, [{"x": data}], everything=True)
    exact = glow.compile(quantized, backend="interpreter").run({"x": data})["y"]
    got = glow.compile(quantized, backend=example.NpuBackend()).run({"x": data})["y"]
    np.testing.assert_array_equal(got, exact)


@pytest.mark.slow
def test_a_timeline_by_a_command(
    example: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`glow-run --backend npu --timeline` draws the cycles; a backend without any says so."""
    entries = (EntryPoint("npu", "glow_npu:NpuBackend", "glow.backends"),)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries * (group == "glow.backends"))
    model = str(tmp_path / "net.mlir")
    glow.save(perceptron()[0], model)
    for name in ("npu.svg", "npu.json"):
        command = [model, "--random", "0", "--backend", "npu{hide=false}", "--timeline", str(tmp_path / name)]
        assert run.main(command) == 0
    assert "of them waiting" in capsys.readouterr().out
    assert (tmp_path / "npu.svg").read_text().startswith("<svg ")
    assert json.loads((tmp_path / "npu.json").read_text())["traceEvents"]
    with pytest.raises(SystemExit):
        run.main([model, "--random", "0", "--backend", "interpreter", "--timeline", str(tmp_path / "t.svg")])
    assert "backend interpreter does not count cycles" in capsys.readouterr().err


@pytest.mark.slow
def test_the_host_runs_the_rest_by_compiled_kernels(example: ModuleType) -> None:
    """A device that has layers alone, with the CPU for all other operators."""

    class Layers(example.NpuBackend):
        def supports(self, op: Any) -> bool:
            return isinstance(op, example.LAYERS)

    graph, data = network()
    want = glow.compile(graph, backend="interpreter").run({"x": data})["y"]
    net: Any = glow.compile(graph, backend=glow.HostFallback(Layers()))
    np.testing.assert_allclose(net.run({"x": data})["y"], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    assert net.report().notes["parts"] == {"npu": 3, "cpu": 2}
    assert timeline_of(net).busy()["matrix"] > 0
