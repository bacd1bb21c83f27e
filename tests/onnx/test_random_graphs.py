"""Random graphs of many operators against onnxruntime, and a short hunt for others."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import hunt
import numpy as np
import onnxruntime
import open_graphs
import pytest
from random_graphs import Graph, graph
from rounding import rounding_decides

import glow_compiler as glow

pytestmark = pytest.mark.slow

GRAPHS = 16


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graphs(seed: int, backend: str) -> None:
    """Every output is onnxruntime's, on the first run and on the second."""
    made = graph(seed)
    model = made.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, made.feed)
    net = glow.compile(model, backend=backend)
    for _ in range(2):
        results = net.run(made.feed)
        for info, want in zip(model.graph.output, wanted, strict=True):
            np.testing.assert_allclose(results[info.name], want, rtol=1e-3, atol=1e-4)


def test_a_short_hunt() -> None:
    """Graphs that nobody has seen, their memory guarded and poisoned."""
    assert hunt.main(["--seconds", "20", "--seed", "1000"]) == 0


def test_a_short_hunt_of_open_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs whose sizes change from call to call; few in a process, which ends no earlier."""
    monkeypatch.setattr(hunt, "TOGETHER", 8)
    assert hunt.main(["--seconds", "10", "--seed", "2000", "--open"]) == 0


def test_a_wrong_program_of_open_sizes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is off by one for other sizes than the graph's own."""
    made = Graph(0)
    made.add("Relu", ["in0"], made.values["in0"])
    case = hunt.Case(made.model(), made.feed)
    assert open_graphs.fault(case) is None
    run = glow.Executable.run

    def wrong(self: glow.Executable, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        known = feed["in0"].shape == made.values["in0"]
        return {
            n: a if known or self.backend.name == "interpreter" else a + 1 for n, a in run(self, feed).items()
        }

    monkeypatch.setattr(glow.Executable, "run", wrong)
    assert "differs" in (open_graphs.fault(case) or "")


def test_rounding_decides() -> None:
    """Sums that are whole numbers but for their last bit have two answers behind Floor; others have one."""
    made = Graph(0)
    rows = np.full((2, 3), 1 / 3, np.float32)
    made.feed["in0"] = rows * np.array([[1], [0.5]], np.float32)
    made.values["in0"] = rows.shape
    total = made.add("ReduceSum", ["in0", made.constant(np.array([1]))], (2,), keepdims=0)
    name = made.add("Floor", [total], (2,))
    case = hunt.Case(made.model(), made.feed)
    for answer, right in (([0, 0], True), ([1, 0], True), ([1, 1], False), ([2, 0], False)):
        assert rounding_decides(case, name, np.array(answer, np.float32)) is right
    assert not rounding_decides(case, name, np.zeros(3, np.float32))


def test_the_hunt_finds_and_reduces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference that only one operator makes is reduced to it."""
    seed = next(s for s in range(100) if any(n.op_type == "Softmax" for n in graph(s).nodes))

    def wrong(made: hunt.Case) -> bool:
        return any(n.op_type == "Softmax" for n in made.model.graph.node)

    made = graph(seed)
    small = hunt.reduced(hunt.Case(made.model(), made.feed), wrong)
    assert [n.op_type for n in small.model.graph.node] == ["Softmax"]


@pytest.mark.parametrize("deadly", [False, True])
def test_one_wrong_graph_of_several_in_a_process(
    deadly: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found and reduced by itself, the others are not blamed, and those of the next process run."""
    bad = next(s for s in range(100, 200) if any(n.op_type == "Softmax" for n in graph(s).nodes))

    def fault(case: hunt.Case) -> str | None:
        wrong = any(n.op_type == "Softmax" for n in case.model.graph.node)
        if wrong and deadly:
            os._exit(3)
        return "differs: everything" if wrong else None

    monkeypatch.setattr(hunt, "fault", fault)
    monkeypatch.setattr(hunt, "TOGETHER", 2)
    given = ["--seconds", "0.01", "--seed", str(bad), "--keep", str(tmp_path)]
    assert hunt.main(given) == 1
    told = capsys.readouterr().out
    assert f"seed {bad}: {'the process ended with 3' if deadly else 'differs'}" in told
    assert "reduced to Softmax" in told and (tmp_path / f"{bad}.onnx").exists()


def test_what_only_several_graphs_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of what one graph leaves for the next is wrong, too."""
    seen: list[int] = []

    def fault(case: hunt.Case) -> str | None:
        seen.append(0)
        return "differs: the second" if len(seen) > 1 else None

    monkeypatch.setattr(hunt, "fault", fault)
    monkeypatch.setattr(hunt, "TOGETHER", 2)
    assert hunt.main(["--seconds", "0.01", "--seed", "5"]) == 1
    assert "seeds 5 to 6, only one after another: differs: the second" in capsys.readouterr().out


def test_a_process_that_dies_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading behind guarded memory ends the process, which says so."""
    made = graph(0)

    def beyond(case: hunt.Case) -> None:
        array, place = hunt.placed((64,), np.dtype(np.uint8))
        ctypes.string_at(place, array.size + 1)

    monkeypatch.setattr(hunt, "fault", beyond)
    assert "ended with -11" in (hunt.apart(hunt.Case(made.model(), made.feed)) or "")
