"""Debug information: gdb stops at nodes and lists the printed program, perf's map names nodes."""

from __future__ import annotations

import ctypes
import gc
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import run
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.build import build
from glow_backends.cpu.debug import glow_gdb_path
from glow_backends.cpu.debug.gdb_interface import interface
from glow_backends.cpu.debug.level import LEVELS
from glow_tools import compile as compile_command
from glow_tools.bench_kernels import planned

pytestmark = pytest.mark.slow

gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
NODES = ("stem/conv", "layer1.conv", "layer2.conv", "layer3.conv")
RUN = """
import os, sys
import numpy as np
import glow_compiler as glow

net = glow.compile(sys.argv[1], debug_info=sys.argv[2])
net.run({"x": np.arange(2048, dtype=np.float32).reshape(1, 8, 16, 16)})
print(os.getpid())
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of four convolutions, of which two are of one kernel, with relus between them."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    last = "x"
    for number, name in enumerate(NODES):
        array = rng.standard_normal((8, 8, 1, 1)).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{number}"))
        nodes.append(helper.make_node("Conv", [last, f"w{number}"], [f"c{number}"], name))
        last = "y" if number == len(NODES) - 1 else f"r{number}"
        nodes.append(helper.make_node("Relu", [f"c{number}"], [last], f"{name}.relu"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 16, 16]) for n in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    path = tmp_path_factory.mktemp("debug") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def _gdb(where: str, *program: str | Path, then: Sequence[str] = ("bt", "list")) -> str:
    """What gdb says where it stops at a place."""
    commands = ("set debuginfod enabled off", f"break {where}", "run", *then)
    words = [word for command in commands for word in ("-ex", command)]
    line = ["gdb", "-nx", "-batch", "-x", glow_gdb_path(), *words, "--args", *program]
    return subprocess.run(line, capture_output=True, text=True, timeout=300).stdout


def _check_stop(said: str, file: str) -> None:
    """That it stopped in the third convolution, and shows it."""
    found = re.search(rf"#0 +layer2.conv \+ layer2.conv.relu \(\) at \S*{file}:(\d+)\n#1 .*glow_main", said)
    assert found, said
    assert re.search(rf"^{found[1]}\t.*conv .*// layer2.conv \+ layer2.conv.relu$", said, re.MULTILINE), said


@gdb
@pytest.mark.parametrize("where", ["node:layer2.conv", "node:layer2.conv.relu"])
def test_gdb_in_compiled_code(where: str, model: Path) -> None:
    """A breakpoint at a node, set before the program is compiled, stops in code of this process."""
    _check_stop(_gdb(where, sys.executable, "-c", RUN, model, "lines"), "net.glow")


@gdb
def test_gdb_ahead_of_time(model: Path, tmp_path: Path) -> None:
    """The listing lies beside the object; nodes and lines of it are places for breakpoints."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    done = run(compile_command.main, model, "-o", tmp_path, "--name", "tiny", "--debug-info", "lines")
    assert done.status == 0, done
    files = (tmp_path / "tiny_example.c", tmp_path / "tiny.o", "-lm", "-o", tmp_path / "tiny")
    subprocess.run([compiler, *files], check=True)
    program = (tmp_path / "tiny", tmp_path / "tiny.weights")
    _check_stop(_gdb("node:layer2.conv", *program), "tiny.glow")
    lines = (tmp_path / "tiny.glow").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "// layer2.conv" in text)
    _check_stop(_gdb(f"tiny.glow:{line}", *program), "tiny.glow")


@gdb
def test_tensors(model: Path) -> None:
    """With full debug information the buffers of an instruction are tensors with its values."""
    then = ("print x", "print (*x)[0][1][2][3]", "info locals")
    said = _gdb("node:stem/conv", sys.executable, "-c", RUN, model, "full", then=then)
    assert re.search(
        r"\$1 = tensor<1x8x16x16xf32> at 0x[0-9a-f]+: \{0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\}", said
    ), said
    assert "$2 = 291\n" in said, said
    assert len(re.findall(r"^\w+ = tensor<", said, re.MULTILINE)) == 2, said


def _told() -> list[int]:
    """The addresses of the files that gdb finds in this process."""
    known = interface()
    assert known is not None
    entry, found = known.first, list[int]()
    while entry:
        previous, entry = entry, entry.contents.next
        assert not entry or entry.contents.previous.contents.file == previous.contents.file
        found.append(ctypes.addressof(previous.contents))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="gdb is told on Linux")
def test_code_that_is_gone(model: Path) -> None:
    """gdb is told of programs as long as they live, whichever of them ends first."""
    before = _told()
    nets = [glow.compile(model, debug_info="lines") for _ in range(3)]
    told = [entry for entry in _told() if entry not in before]
    each = len(told) // 3
    assert each > 0
    for left in (told[:each] + told[2 * each :], told[2 * each :], []):  # the newest come first
        nets.pop(1 if len(nets) > 1 else 0)
        gc.collect()
        assert [entry for entry in _told() if entry not in before] == left


def test_perf_map(model: Path) -> None:
    """Kernels are called after their nodes, and so is each call in the program function."""
    line = [sys.executable, "-c", RUN, str(model), "lines"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    file = Path("/tmp") / f"perf-{int(done.stdout)}.map"
    rows = [row.split(" ", 2) for row in file.read_text().splitlines()]
    file.unlink()
    names = [name for _, _, name in rows]
    for node in NODES:
        assert f"glow_main: {node} + {node}.relu" in names
    assert any(re.match(r"stem/conv .*\[glow_", name) for name in names), names
    ranges = sorted((int(start, 16), int(start, 16) + int(size, 16)) for start, size, _ in rows)
    assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False))


def test_kernels_stay(model: Path) -> None:
    """Debug information changes no kernel, and no result."""
    kernels: list[list[str]] = []
    for level in LEVELS:
        backend = CpuBackend()
        module, function, _ = planned(str(model), {}, backend)
        _, selection = build(module, function, backend.target, debug=level)
        kernels.append(sorted(selection.kernels))
    assert kernels[0] == kernels[1] == kernels[2]
    x = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)
    plain, *told = (glow.compile(model, debug_info=level).run({"x": x})["y"] for level in LEVELS)
    for result in told:
        np.testing.assert_array_equal(plain, result)


def test_unknown_level(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(glow.GlowError, match="debug_info='line' is unknown; there are: none, lines, full"):
        glow.compile(model, debug_info="line")
    monkeypatch.setenv("GLOW_DEBUG_INFO", "some")
    with pytest.raises(glow.GlowError, match="GLOW_DEBUG_INFO='some' is unknown"):
        glow.compile(model)
