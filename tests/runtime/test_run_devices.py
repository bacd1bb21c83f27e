"""glow-run and glow-opt with devices and partitions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from host_networks import diamond, feed, layers

import glow_compiler as glow
from glow_passes.watch.dot import drawn
from glow_tools.opt import main as opt
from glow_tools.run import main as run


@pytest.fixture
def model(tmp_path: Path) -> str:
    glow.save(layers(4), tmp_path / "net.mlir")
    return str(tmp_path / "net.mlir")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--partition", "3"], 3),
        (["--partition", "memory=2K"], 2),
        (["--device", "cpu:0", "--device", "process:1", "--partition", "balance"], 2),
        (["--device", "process,memory=4K"], 1),
        (["--device", "interpreter"], 1),
    ],
)
def test_run(
    model: str, options: list[str], count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = feed(layers(4))
    np.save(tmp_path / "x.npy", inputs["x"])
    out = tmp_path / "out.npz"
    arguments = [model, "--input", f"x={tmp_path / 'x.npy'}", "--output", str(out), "--report", *options]
    assert run([*arguments, "--timeline", str(tmp_path / "t.json")]) == 0
    shown = capsys.readouterr().out
    assert f"on {count} partitions" in shown and "bytes of constants, reads x" in shown
    backend = "interpreter" if "interpreter" in options else "cpu"
    np.testing.assert_array_equal(
        np.load(out)["y"], glow.compile(layers(4), backend=backend).run(inputs)["y"]
    )
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e.get("cat") == "partition" for e in events) >= count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--partition", "memory=9"], "has 1024 bytes of constants, the largest device has 9"),
        (["--partition", "memory=lots"], "'lots' is not a size in bytes"),
        (["--partition", "fast"], "is not one of auto"),
        (["--device", "abacus:1"], "no kind of device 'abacus'"),
    ],
)
def test_wrong_options(
    model: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([model, "--random", "0", *options]) == 1
    assert message in capsys.readouterr().err


def test_picture(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Partitions are clusters; what they hand on is dashed."""
    assert opt([model, "-p", "glow-partition{count=2}", "-t", "dot"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("subgraph") == 2 and shown.count("style=dashed") == 1


def test_picture_of_devices(model: str, tmp_path: Path) -> None:
    """What is on which device, the bytes, and the step of each partition."""
    path = tmp_path / "host.dot"
    options = ["--device", "cpu:a", "--device", "process:b", "--partition", "3", "--picture", str(path)]
    assert run([model, "--random", "0", *options]) == 0
    text = path.read_text()
    assert text.count("subgraph") == 2 and 'label="cpu:a"' in text and 'label="process:b"' in text
    assert [f"{step}: " in text for step in (1, 2, 3, 4)] == [True, True, True, False]
    assert text.count(" -> ") == 2


def test_picture_of_several_networks() -> None:
    """The paper's figure 10: some networks are divided, some are there several times."""
    with glow.HostManager(["cpu"] * 4) as host:
        host.add_network("a", layers(4), partition=2)
        host.add_network("b", layers(2), replicas=2)
        host.add_network('c"', diamond(), partition=3)
        text = host.picture()
    assert text.count("subgraph") == 4 and text.count("fillcolor") == 2 + 2 + 3
    assert all(title in text for title in ("a main_0", "b, replica 1", r"c\" main_2"))
    assert len(set(re.findall('fillcolor="(#.*?)"', text))) == 3
    if shutil.which("dot"):
        assert drawn(text).count("<svg") == 1
