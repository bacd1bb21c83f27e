"""Progress on a terminal, nothing of it elsewhere; results as JSON; tables on narrow terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import run

from glow_tools import bench, bisect, compile, sample
from glow_tools import run as run_command
from glow_tools.bench import print_table

SLOW = """
import sys, time
from glow_tools.common import note
from glow_tools.progress import Progress
with Progress("first stage") as progress:
    time.sleep(0.9)
    note("said meanwhile")
    progress("second stage")
    time.sleep(0.4)
print("the result")
"""


def on_a_terminal(command: Sequence[str], **variables: str) -> tuple[str, str]:
    """Standard output, and what a terminal shows of the standard error."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        assert process.stdout is not None
        return process.stdout.read(), shown.decode()


def test_progress_is_for_terminals() -> None:
    """Stages with seconds, in one line that goes; what is said meanwhile has a line of its own."""
    out, shown = on_a_terminal([sys.executable, "-c", SLOW])
    assert out == "the result\n"
    assert "first stage (" in shown and "second stage (" in shown
    assert shown.endswith("\r\x1b[K") and "\r\x1b[Knote: said meanwhile\r\n" in shown
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("the result\n", "note: said meanwhile\n")
    assert "stage" not in on_a_terminal([sys.executable, "-c", SLOW], TERM="dumb")[1]


@pytest.mark.slow
def test_commands_show_progress(tmp_path: Path) -> None:
    """Where they work for more than a moment."""
    path = tmp_path / "model.onnx"
    run(sample.main, "resnet50", "-o", path)
    start = [sys.executable, "-m", "glow_tools"]
    fresh = {"GLOW_CACHE_DIR": str(tmp_path / "cache")}
    makes = {
        "compile": [path, "-o", tmp_path / "out"],
        "bench": [path, "--peers", "none", "--rounds", "1", "--seconds", "0.01"],
        "run": [path, "--random", "0"],
    }
    for name, arguments in makes.items():
        _, shown = on_a_terminal([*start, name, *map(str, arguments)], **fresh)
        assert re.search(r"[|/\\-] \w.* \(\d+ s\)", shown), (name, shown)


def test_results_as_json(tmp_path: Path) -> None:
    """Nothing but JSON on the standard output."""
    path = tmp_path / "m.mlir"
    path.write_text(
        "glow.placeholder @x input : tensor<4xf32>\nglow.placeholder @y output : tensor<4xf32>\n"
        "glow.func @main {\n%x = glow.get @x : tensor<4xf32>\n"
        "%y = glow.relu %x : (tensor<4xf32>) -> tensor<4xf32>\nglow.save %y to @y : tensor<4xf32>\n}\n"
    )
    arguments = (path, "--random", "0", "--json", "--iterations", "2", "--report", "--compare", "interpreter")
    found = json.loads(run(run_command.main, *arguments).output)
    assert (
        found["outputs"][0]["shape"] == [4]
        and found["runs"]["count"] == 2
        and found["report"]["kernels"] == 1
    )
    found = json.loads(run(compile.main, path, "-o", tmp_path / "out", "--json").output)
    assert str(tmp_path / "out" / "m.o") in found["files"] and found["functions"]["m"]["tensor_bytes"] == 32
    assert json.loads(run(bisect.main, path, "--json").output) is None


def test_json_of_the_race(tmp_path: Path) -> None:
    """`--json` alone prints it."""
    path = tmp_path / "model.onnx"
    run(sample.main, "squeezenet", "-o", path)
    done = run(bench.main, path, "--peers", "none", "--rounds", "1", "--seconds", "0.01", "--json")
    assert json.loads(done.output)["models"][0]["engines"]["glow"]["runs"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_race_on_a_narrow_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every heading, engine and figure is whole; colours are not for NO_COLOR."""
    monkeypatch.setenv("COLUMNS", str(columns))
    figures = {"median_ms": 12.3456, "min_ms": 11.5, "load_s": 0.5, "peak_bytes": 1 << 27, "speedup": 2.5}
    engines = {"glow": figures, "onnxruntime": figures, "openvino": {"error": "it does not run: " + "x" * 99}}
    report = {
        "machine": {"processor": "a processor"},
        "threads": 1,
        "cores": [0],
        "models": [{"model": "squeezenet", "engines": engines}],
    }
    print_table(report)
    shown = capsys.readouterr().out
    for word in ("median ms", "max rel error", "x best peer", "onnxruntime", "openvino", "12.346", "failed"):
        assert word in shown, word
    assert "…" not in shown and "\x1b" not in shown
    assert max(len(line) for line in shown.splitlines() if "does not run" not in line) <= columns
