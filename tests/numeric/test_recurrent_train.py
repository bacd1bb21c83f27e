"""Recurrent networks in training: their gradients against those of unrolled graphs, kernels, PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import ModuleOp, StringAttr

import glow_compiler as glow
import glow_passes.autodiff.differentiate as passes_differentiate
from glow_backends.base import get_backend
from glow_compiler.training_graph import main_of
from glow_dialects.core.sample import random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, typed
from glow_dialects.dialects import context
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.module import SaveOp
from glow_dialects.ops.recurrent_train import GATES, SAVED, RecurrentBackwardOp, RecurrentTrainOp
from glow_dialects.ops.rnn import RnnOp
from glow_passes.autodiff.differentiate import differentiate, save_gradients
from glow_passes.autodiff.training import add_placeholder
from glow_passes.pipeline import INSTR, LOWER
from glow_runtime.compile import compile_module

CARDS: dict[str, Any] = {"lstm": LstmOp, "gru": GruOp, "rnn": RnnOp}
T, N, I, H = 4, 3, 5, 6


def gradients(
    kind: str,
    unrolled: bool,
    monkeypatch: Any,
    lengths: bool = False,
    peepholes: bool = False,
    **properties: Any,
) -> dict[str, Array]:
    """Gradients of every operand of a network in float64, where every result is used."""
    directions = 2 if properties.get("direction") == "bidirectional" else 1
    first, card, rows = properties.get("layout") == 1, CARDS[kind], GATES[kind] * H
    state = (N, directions, H) if first else (directions, N, H)
    shapes = {
        "x": (N, T, I) if first else (T, N, I),
        "w": (directions, rows, I),
        "r": (directions, rows, H),
        "b": (directions, 2 * rows),
        "h": state,
        **({"c": state} if kind == "lstm" else {}),
        **({"p": (directions, 3 * H)} if peepholes else {}),
    }
    g = glow.GraphBuilder()
    weights = [
        g.trainable(random(*shape, dtype="float64", seed=i), name)
        for i, (name, shape) in enumerate(shapes.items())
    ]
    ends = g.constant(np.array([T, 1, 2], np.int32)) if lengths else None
    operands: list[Any] = [*weights[:4], ends, *weights[4:]]
    total = None
    for index, result in enumerate(g.insert(card, *operands, **properties)):
        factor = random(*result.shape, dtype="float64", seed=20 + index)
        part = g.reduce_sum(result * g.constant(factor), axes=tuple(range(len(result.shape))), keepdims=False)
        total = part if total is None else total + part
    g.save(total, "loss")
    module: ModuleOp = glow.load(g)
    if unrolled:
        monkeypatch.setattr(passes_differentiate, "has_training_form", lambda op: False)
    function = main_of(module)
    training = differentiate(module, function, "loss")
    found = any(isinstance(op, RecurrentTrainOp) for op in module.walk())
    assert found is not unrolled
    save_gradients(module, training)
    function.detach()
    function.erase()
    training.function.properties["sym_name"] = StringAttr("main")
    out = compile_module(module, get_backend("interpreter")).run({})
    return {n: out[f"{n}.grad"] for n in shapes}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("lstm", {}),
        ("lstm", {"direction": "bidirectional", "layout": 1}),
        ("lstm", {"direction": "reverse"}),
        ("gru", {"linear_before_reset": True}),
        ("gru", {"linear_before_reset": True, "direction": "bidirectional", "layout": 1}),
        ("rnn", {}),
        ("rnn", {"direction": "bidirectional", "activations": "Relu,Tanh"}),
        ("lstm", {"peepholes": True, "direction": "bidirectional"}),
        ("lstm", {"peepholes": True, "clip": 0.3, "input_forget": True}),
        ("lstm", {"lengths": True, "direction": "bidirectional", "layout": 1}),
        ("gru", {"linear_before_reset": False, "direction": "bidirectional"}),
        ("gru", {"linear_before_reset": False, "lengths": True, "direction": "reverse"}),
        ("gru", {"linear_before_reset": True, "clip": 0.2}),
        ("rnn", {"lengths": True, "direction": "bidirectional", "activations": "Relu,Tanh", "clip": 0.5}),
    ],
)
def test_training_form(kind: str, properties: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of the loop are those of the unrolled graph, last states and cells included."""
    got = gradients(kind, False, monkeypatch, **properties)
    want = gradients(kind, True, monkeypatch, **properties)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


def compiled(graph: Graph, threads: int) -> list[Array]:
    """The outputs in order, by native code without host steps."""
    backend = get_backend("cpu", threads=threads)
    for passes in (backend.graph_passes(), LOWER, backend.instr_passes(), INSTR):
        for item in passes:
            item.apply(context(), graph.module)
    program = backend.compile(graph.module)
    assert program.report.notes["host instructions"] == 0
    return list(program.run(graph.inputs).values())


OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lstm", {}),
    ("gru", {}),
    ("rnn", {}),
    ("lstm", {"peepholes": True, "lengths": True}),
    ("lstm", {"peepholes": True, "clip": 0.3, "input_forget": True}),
    ("lstm", {"clip": 0.3, "lengths": True}),
    ("gru", {"linear_before_reset": False}),
    ("gru", {"linear_before_reset": False, "clip": 0.3, "lengths": True}),
    ("gru", {"lengths": True}),
    ("rnn", {"activation": "relu", "clip": 0.3, "lengths": True}),
)


VARIANTS = [
    (kind, options, dtype, threads)
    for kind, options in OPTIONS
    for dtype, threads in (("float32", 1), ("float32", 2), ("float64", 1), ("float64", 2))
    if not options or (dtype, threads) != ("float64", 2)
]


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "hidden"), [(1, 1), (5, 17), (8, 16), (11, 40), (32, 67)])
@pytest.mark.parametrize(("kind", "options", "dtype", "threads"), VARIANTS)
def test_kernels(
    kind: str, options: dict[str, Any], samples: int, hidden: int, dtype: str, threads: int
) -> None:
    """Sizes that fill no vector and no block of samples, on one worker and two."""
    steps, rows, reverse, options = 3, GATES[kind] * hidden, samples % 2 == 0, dict(options)

    def some(*shape: int, seed: int) -> Array:
        return (random(*shape, dtype=dtype, seed=seed) * 0.5).astype(dtype)

    state, cell = some(samples, hidden, seed=3), some(samples, hidden, seed=4) if kind == "lstm" else None
    every = (steps, samples, hidden)
    bias = some(hidden, seed=5) if kind == "gru" and options.get("linear_before_reset", True) else None
    more = (
        (np.arange(samples) % 4).astype(np.int32) if options.pop("lengths", False) else None,
        some(3 * hidden, seed=10) if options.pop("peepholes", False) else None,
    )
    forward = (some(steps, samples, rows, seed=1), some(hidden, rows, seed=2), state, cell, bias, *more)
    saved = some(steps, samples, SAVED[kind] * hidden, seed=8)
    cells = some(*every, seed=9) if kind == "lstm" else None
    weights = some(rows, hidden, seed=2)
    backward = (some(*every, seed=6), weights, some(*every, seed=7), saved, state, cell, cells, *more)
    for op, operands in ((RecurrentTrainOp, forward), (RecurrentBackwardOp, backward)):
        graph = Graph()
        inputs = [None if a is None else graph.input(a) for a in operands]
        made = graph.b.insert(op(*inputs, kind=kind, reverse=reverse, **options))
        for result in made.results:
            graph.save(result)
        want = made.evaluate([a for a in operands if a is not None])
        for got, expected in zip(compiled(graph, threads), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_against_pytorch(kind: str) -> None:
    """Ten steps of a stacked bidirectional network with the samples first."""
    torch = pytest.importorskip("torch")
    from torch_export import exported_for_training

    nn = torch.nn

    class Network(nn.Module):
        """Two layers in both directions and a classifier of the last place."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = getattr(nn, kind)(5, 9, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(18, 3)

        def forward(self, x: Any) -> Any:
            """Scores [N, 3]."""
            return self.head(self.layers(x)[0][:, -1])

    torch.manual_seed(0)
    net, x, labels = Network(), random(6, 7, 5), np.arange(6) % 3
    net.eval()
    model = exported_for_training(net, torch.tensor(x))
    net.train()
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.Adam(lr=0.01))
    assert any(isinstance(op, RecurrentTrainOp) for op in trainer.graph.training.walk())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(labels))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, labels) == pytest.approx(loss.item(), rel=1e-4)
    with torch.no_grad():
        np.testing.assert_allclose(trainer.predict(x), net(torch.tensor(x)).numpy(), rtol=1e-3, atol=1e-4)


def test_two_workers() -> None:
    """Steps on two workers give the numbers of one, each time."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (6, 4, 5))
    weights = [
        g.constant(random(*shape, seed=i), f"w{i}") for i, shape in enumerate([(1, 32, 5), (1, 32, 8)])
    ]
    states = g.insert(LstmOp, x, *weights)[0]
    last = g.reshape(g.slice(states, (5, 0, 0, 0), (6, 1, 4, 8)), (4, 8))
    g.save(g.matmul(last, g.constant(random(8, 3), "head")), "y")
    inputs, labels, found = random(6, 4, 5), np.arange(4) % 3, list[list[float]]()
    for threads in (1, 2):
        trainer = glow.Trainer(g, optimizer=glow.optim.SGD(lr=0.5), threads=threads)
        found.append([trainer.step(inputs, labels) for _ in range(20)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@pytest.mark.slow
def test_second_derivatives() -> None:
    """The gradient of a gradient of each kind, against central differences of the first."""
    for kind, properties in (("lstm", {}), ("gru", {"linear_before_reset": True}), ("rnn", {})):
        rows = GATES[kind] * 3
        g = glow.GraphBuilder()
        x = g.trainable(random(2, 2, 2, dtype="float64"), "x")
        weights = [g.constant(random(1, rows, n, dtype="float64", seed=n)) for n in (2, 3)]
        y = g.insert(CARDS[kind], x, *weights, **properties)[0]
        g.save(g.reduce_sum(y * y, axes=(0, 1, 2, 3), keepdims=False), "loss")
        module: ModuleOp = glow.load(g)
        first = differentiate(module, main_of(module), "loss")
        # g = sum(c dloss/dx): its gradient is the Hessian times c.
        c = random(2, 2, 2, dtype="float64", seed=9)
        b = first.builder
        x = Term(first.gradients["x"], b)
        along = (x * b.constant(c)).sum((0, 1, 2), keepdims=False).value
        target = add_placeholder(module, "along", typed(along), "output")
        b.insert(SaveOp.of(along, target))
        second = differentiate(module, first.function, "along")
        save_gradients(module, second)
        for function in (main_of(module), first.function):
            function.detach()
            function.erase()
        second.function.properties["sym_name"] = StringAttr("main")
        program = compile_module(module, get_backend("interpreter"))
        start, got = program.state["x"].copy(), program.run({})["x.grad"]
        for place in ((0, 0, 0), (1, 1, 0)):
            values: list[float] = []
            for step in (1e-5, -1e-5):
                program.state["x"][...] = start
                program.state["x"][place] += step
                values.append(float(program.run({})["along"]))
            assert got[place] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-8)


@pytest.mark.slow
def test_packed_sequences() -> None:
    """Sequences of different lengths, packed in PyTorch, `sequence_lens` in ONNX."""
    torch = pytest.importorskip("torch")
    from torch_export import exported_for_training

    nn = torch.nn

    class Network(nn.Module):
        """A bidirectional LSTM over packed sequences, its last states classified."""

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.LSTM(5, 9, bidirectional=True), nn.Linear(18, 3)

        def forward(self, x: Any, lengths: Any) -> Any:
            """Scores [N, 3]."""
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
            every, (last, _) = self.layer(packed)
            every = nn.utils.rnn.pad_packed_sequence(every, total_length=6)[0]
            return self.head(last.transpose(0, 1).reshape(-1, 18) + every.sum(0))

    torch.manual_seed(0)
    net, x, labels = Network(), torch.tensor(random(6, 4, 5)), torch.tensor([0, 1, 2, 0])
    lengths = torch.tensor([6, 4, 4, 1])
    net.eval()
    model = exported_for_training(net, (x, lengths))
    net.train()
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.SGD(lr=0.5))
    assert any(isinstance(op, RecurrentTrainOp) for op in trainer.graph.training.walk())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x, lengths), labels)
        loss.backward()
        optimizer.step()
        assert trainer.step([x.numpy(), lengths.numpy()], labels.numpy()) == pytest.approx(
            loss.item(), rel=1e-4
        )
