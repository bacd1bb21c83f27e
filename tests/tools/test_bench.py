"""glow-bench: the race, the profile, the trace and the accuracy table of a small network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import Done, run

import glow_compiler as glow
from glow_tools import bench
from glow_tools.bench_race import distance, statistics

pytestmark = pytest.mark.slow

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small convolutional network as ONNX."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 16, 20, 20))
    w = g.constant(rng.standard_normal((16, 16, 3, 3)).astype(np.float32), "w")
    g.save(g.softmax(g.flatten(g.relu(g.conv(x, w, pads=(1, 1, 1, 1))))), "y")
    path = tmp_path_factory.mktemp("bench") / "net.onnx"
    glow.save(g, path)
    return path


def test_race(model: Path) -> None:
    """Figures of both engines, positive, and outputs that agree."""
    done = run(
        bench.main, model, "--peers", "onnxruntime", "--rounds", "2", "--seconds", "0.01", "--json", "-"
    )
    assert done.status == 0, done
    report = json.loads(done.output)
    engines = report["models"][0]["engines"]
    assert set(engines) == {"glow", "onnxruntime"}
    for figures in engines.values():
        assert 0 < figures["min_ms"] <= figures["median_ms"]
        assert figures["load_s"] > 0
        assert figures["peak_bytes"] > 2**20
        assert len(figures["round_medians_ms"]) == 2
    assert engines["glow"]["error_relative"] < 1e-4
    assert engines["glow"]["speedup"] > 0
    assert engines["glow"]["arena_bytes"] > 0
    assert report["machine"]["versions"]["onnxruntime"]


def test_race_of_several_threads(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each engine is timed on one thread in the same rounds, and the table says what threads gain."""
    monkeypatch.setenv("COLUMNS", "200")
    options = ("--threads", "2", "--peers", "onnxruntime", "--rounds", "2", "--seconds", "0.01")
    done = run(bench.main, model, *options, "--json", model.with_suffix(".json"))
    assert done.status == 0, done
    found = json.loads(model.with_suffix(".json").read_text())["models"][0]["engines"]
    for figures in found.values():
        assert figures["scaling"] == pytest.approx(figures["one_thread_ms"] / figures["median_ms"])
    assert [row[-1] for row in lines(done)] == [f"{figures['scaling']:.2f}" for figures in found.values()]


def test_race_of_a_model_that_fails(tmp_path: Path) -> None:
    """An engine that cannot load the model is reported; ours failing is a failure."""
    path = tmp_path / "odd.onnx"
    import onnx
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Frobnicate", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    done = run(bench.main, path, "--peers", "none", "--rounds", "1")
    assert done.status == 1
    assert "odd on glow: ImportProblems" in done.output


def lines(done: Done) -> list[list[str]]:
    """The cells of a printed table."""
    rows = [line.split("│") for line in done.output.splitlines() if "│" in line]
    return [[cell.strip() for cell in row[1:-1]] for row in rows]


def test_profile_and_trace(model: Path, tmp_path: Path) -> None:
    """Every step has a time; the trace holds stages and kernels."""
    trace = tmp_path / "trace.json"
    done = run(bench.main, model, "--profile", "--trace", trace, "--rounds", "1")
    assert done.status == 0, done
    steps = [row for row in lines(done) if row[0].isdigit()]
    assert any(row[2] == "conv" and float(row[6]) > 0 for row in steps)
    assert all(row[1] and float(row[4]) >= 0 for row in steps)
    events = json.loads(trace.read_text())["traceEvents"]
    kernels = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
    assert len(kernels) == len(steps)
    assert all(e["args"]["nodes"] for e in kernels)
    assert {e["name"] for e in events if e["ph"] == "X" and e["tid"] == 1} >= {"load", "optimize"}
    assert [e["ts"] for e in kernels] == sorted(e["ts"] for e in kernels)


def test_profile_of_several_threads(tmp_path: Path) -> None:
    """Each worker's seconds are known, and the part of them in which it computed."""
    g = glow.GraphBuilder()
    x, w = g.placeholder("x", (2, 16, 96, 96)), g.constant(np.ones((64, 16, 3, 3), np.float32), "w")
    g.save(g.conv(x, w, pads=(1, 1, 1, 1)), "y")
    glow.save(g, tmp_path / "wide.onnx")
    command = (tmp_path / "wide.onnx", "--profile", "--threads", "2", "--rounds", "1")
    done = run(bench.main, *command, "--json", "-")
    assert done.status == 0, done
    (found,) = json.loads(done.output)["models"]
    step = next(k for k in found["kernels"] if k["label"].endswith("conv"))
    assert len(step["busy"]) == 2 and all(0 < t <= 1.1 * step["seconds"] for t in step["busy"])
    assert 0 < step["balance"] <= 1.1
    table = run(bench.main, *command)
    assert "% busy" in table.output, table


def test_accuracy(model: Path) -> None:
    """The convolution's error is of float32's order."""
    done = run(bench.main, model, "--accuracy")
    assert done.status == 0, done
    (row,) = lines(done)
    assert row[1] == "1x16x20x20, 16x16x3x3"
    assert 0 < float(row[3]) < 1e-5
    assert 0 < float(row[5]) < 1e-5


def test_kernels_as_json(model: Path) -> None:
    """The profile and the errors in one document, without tables."""
    done = run(bench.main, model, "--profile", "--accuracy", "--rounds", "1", "--json", "-")
    assert done.status == 0, done
    (found,) = json.loads(done.output)["models"]
    assert any(k["label"].endswith("conv") and k["gflops"] > 0 for k in found["kernels"])
    assert found["peak_gflops"] > 0
    assert 0 < found["accuracy"][0]["error"] < 1e-5


def test_one_trace_is_of_one_model(model: Path, tmp_path: Path) -> None:
    assert run(bench.main, model, model, "--trace", tmp_path / "t.json").status == 2


def test_statistics() -> None:
    """Medians of rounds, and their spread."""
    found = statistics([[1e-3, 2e-3, 3e-3], [4e-3, 4e-3, 4e-3], [3e-3, 3e-3, 3e-3]])
    assert found["median_ms"] == pytest.approx(3)
    assert found["min_ms"] == pytest.approx(1)
    assert found["spread"] == pytest.approx(2 / 3)
    assert found["runs"] == 9


def test_distance(tmp_path: Path) -> None:
    """The largest difference over the largest magnitude."""
    np.savez(tmp_path / "a.npz", y=np.array([1.0, -4.0]))
    np.savez(tmp_path / "b.npz", y=np.array([1.0, -3.0]))
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert distance(a, b) == pytest.approx(0.25)
