"""Recurrent networks through the CPU backend's passes and kernel, against the cards and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

from glow_backends.base import get_backend
from glow_backends.cpu.passes.cpu_recurrent import CpuRecurrentPass
from glow_dialects.dialects import context
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.rnn import RnnOp
from glow_passes.pipeline import INSTR, LOWER

RNG = np.random.default_rng(6)
GATES = {LstmOp: 4, GruOp: 3, RnnOp: 1}


def normal(*shape: int) -> np.ndarray:
    """Small numbers, so that states do not saturate."""
    return (RNG.normal(size=shape) * 0.3).astype(np.float32)


def network(
    op: Any, size: tuple[int, int, int, int], full: bool, direction: str, layout: int, **more: Any
) -> Graph:
    """A network of (steps, samples, inputs, hidden) with all optional operands, or none."""
    steps, samples, inputs, hidden = size
    count, rows = 2 if direction == "bidirectional" else 1, GATES[op] * hidden
    graph = Graph()
    x = graph.input(normal(*((samples, steps) if layout else (steps, samples)), inputs))
    state = (samples, count, hidden) if layout else (count, samples, hidden)
    operands: list[Any] = [
        x,
        graph.constant(normal(count, rows, inputs)),
        graph.constant(normal(count, rows, hidden)),
    ]
    if full:
        operands.append(graph.constant(normal(count, 2 * rows)))
        operands.append(graph.input(RNG.integers(0, steps + 1, samples).astype(np.int32)))
        operands.append(graph.input(normal(*state)))
        if op is LstmOp:
            operands += [graph.input(normal(*state)), graph.constant(normal(count, 3 * hidden))]
    for result in graph.b.insert(op(*operands, direction=direction, layout=layout, **more)).results:
        graph.save(result)
    return graph


def compile_and_run(graph: Graph, threads: int) -> list[np.ndarray]:
    """The outputs in order, by native code without host steps."""
    backend = get_backend("cpu", threads=threads)
    for passes in (backend.graph_passes(), LOWER, backend.instr_passes(), INSTR):
        for item in passes:
            item.apply(context(), graph.module)
    program = backend.compile(graph.module)
    assert program.report.notes["host instructions"] == 0
    return list(program.run(graph.inputs).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "size,threads",
    [((5, 1, 7, 40), 1), ((4, 3, 10, 16), 2), ((3, 4, 3, 130), 1), ((2, 7, 5, 9), 3)],
    ids=str,
)
@pytest.mark.parametrize("direction,layout", [("forward", 0), ("reverse", 1), ("bidirectional", 0)])
@pytest.mark.parametrize(
    "op,full,more",
    [
        (LstmOp, False, {}),
        (LstmOp, True, {"input_forget": 1, "clip": 0.6}),
        (GruOp, False, {}),
        (GruOp, True, {"linear_before_reset": True}),
        (RnnOp, True, {}),
    ],
)
def test_networks(
    op: Any, full: bool, more: dict[str, Any], direction: str, layout: int, size: Any, threads: int
) -> None:
    """Every kind, with and without its optional operands, by native code."""
    graph = network(op, size, full, direction, layout, **more)
    expected = graph.run()
    for got, want in zip(compile_and_run(graph, threads), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction,layout", [("forward", 0), ("reverse", 1), ("bidirectional", 1)])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "op,more",
    [
        (LstmOp, {"input_forget": 1, "clip": 0.6}),
        (GruOp, {"linear_before_reset": True}),
        (GruOp, {}),
        (RnnOp, {"activations": "Affine", "activation_alpha": (0.5,), "activation_beta": (0.2,)}),
    ],
)
def test_pass(op: Any, more: dict[str, Any], full: bool, direction: str, layout: int) -> None:
    """One product for all steps and a loop, whose values are those of the operator."""
    if "activations" in more and direction == "bidirectional":
        more = {"activations": "Affine,Affine", **{n: v * 2 for n, v in more.items() if n != "activations"}}
    graph = network(op, (3, 2, 4, 5), full, direction, layout, **more)
    expected = graph.run()
    CpuRecurrentPass().apply(context(), graph.module)
    graph.module.verify()
    assert "glow_cpu.recurrent" in graph.ops()
    for got, want in zip(graph.run(), expected, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", ["weights", "recurrence", "bias"])
def test_given_parameters(given: str) -> None:
    """A parameter that is no constant, whichever it is, asks for the loop of training."""
    graph, sizes = Graph(), {"weights": (1, 20, 4), "recurrence": (1, 20, 5), "bias": (1, 40)}
    x = graph.input(normal(3, 2, 4))
    operands = [(graph.input if n == given else graph.constant)(normal(*size)) for n, size in sizes.items()]
    for result in graph.b.insert(LstmOp(x, *operands)).results:
        graph.save(result)
    expected = graph.run()
    CpuRecurrentPass().apply(context(), graph.module)
    assert "recurrent_train" in graph.ops() and "glow_cpu.recurrent" not in graph.ops()
    for got, want in zip(graph.run(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_activations() -> None:
    """Functions with numbers of their own."""
    names = "HardSigmoid,ScaledTanh,Affine"
    numbers = {"activation_alpha": (0.3, 0.9, 0.5), "activation_beta": (0.4, 1.1, 0.2)}
    graph = network(LstmOp, (3, 2, 4, 20), True, "forward", 0, activations=names, **numbers)
    expected = graph.run()
    for got, want in zip(compile_and_run(graph, 1), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_lstm_as_pytorch_has_it() -> None:
    """The same parameters in PyTorch's order of gates."""
    torch = pytest.importorskip("torch")
    steps, samples, inputs, hidden = 6, 2, 5, 24
    w, r, b = normal(1, 4 * hidden, inputs), normal(1, 4 * hidden, hidden), normal(1, 8 * hidden)
    x = normal(steps, samples, inputs)
    lstm = torch.nn.LSTM(inputs, hidden)

    def gates(array: np.ndarray) -> Any:
        """i o f c -> i f c o."""
        parts = np.split(array, 4)
        return torch.from_numpy(np.concatenate([parts[0], parts[2], parts[3], parts[1]]))

    own, recurrent = np.split(b[0], 2)
    lstm.load_state_dict(
        {
            "weight_ih_l0": gates(w[0]),
            "weight_hh_l0": gates(r[0]),
            "bias_ih_l0": gates(own),
            "bias_hh_l0": gates(recurrent),
        }
    )
    expected, (last, cell) = lstm(torch.from_numpy(x))
    graph = Graph()
    operands = [graph.input(x), *(graph.constant(a) for a in (w, r, b))]
    for result in graph.b.insert(LstmOp(*operands)).results:
        graph.save(result)
    results = compile_and_run(graph, 1)
    for got, want in zip(results, (expected[:, None], last, cell), strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lengths", ["one", "all", "random", "none"])
@pytest.mark.parametrize("op", [LstmOp, GruOp, RnnOp])
def test_lengths(op: Any, lengths: str, threads: int) -> None:
    """Samples of any lengths, also below none and beyond all steps: blocks are of samples of like lengths."""
    steps, samples, hidden = 9, 37, 20
    given = {
        "one": np.where(np.arange(samples) == 17, steps, 2),
        "all": np.full(samples, steps + 3),
        "random": RNG.integers(0, steps + 1, samples),
        "none": np.arange(samples) * 0 - 1,
    }[lengths]
    graph = Graph()
    rows = GATES[op] * hidden
    operands = [
        graph.input(normal(steps, samples, 6)),
        *(graph.constant(normal(*shape)) for shape in ((2, rows, 6), (2, rows, hidden), (2, 2 * rows))),
        graph.input(given.astype(np.int32)),
        graph.input(normal(2, samples, hidden)),
    ]
    for result in graph.b.insert(op(*operands, direction="bidirectional")).results:
        graph.save(result)
    expected = graph.run()
    for got, want in zip(compile_and_run(graph, threads), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
