"""Python functions of tensors beside the same networks as graphs, one thread.

    python -m benchmarks.functions            # a table
    python -m benchmarks.functions --json     # a line of JSON for each measurement

`lstm`: a training step (loss, gradients, SGD) of an LSTM over 25 steps, 32 sequences of 64 numbers, 128
units and a classifier: written as a Python loop and trained with `glow.value_and_grad`; as a graph with
`glow.Trainer`; and with PyTorch. `mlp`: the value of a small perceptron, as a function and as a compiled
graph. Each figure is the best of several; the ways take turns, so that other programs matter little.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import glow_compiler as glow

STEPS, BATCH, INPUTS, UNITS, CLASSES, RATE = 25, 32, 64, 128, 10, 0.1
#: Where the gates of the cell and of the output begin.
CELL, LAST = 2 * UNITS, 3 * UNITS
Step = Callable[[], Any]


def lstm_loss(weights, xs, targets):
    """Mean cross entropy of an LSTM's last state; xs (steps, batch, inputs), targets one-hot."""
    w, u, b, head, shift = weights
    h = np.zeros((xs.shape[1], UNITS), np.float32)
    c = h
    for x in xs:
        gates = x @ w + h @ u + b
        i = glow.ops.sigmoid(gates[:, :UNITS])
        f = glow.ops.sigmoid(gates[:, UNITS:CELL])
        g = np.tanh(gates[:, CELL:LAST])
        o = glow.ops.sigmoid(gates[:, LAST:])
        c = f * c + i * g
        h = o * np.tanh(c)
    scores = glow.ops.log_softmax(h @ head + shift, axis=1)
    return -np.sum(scores * targets) / xs.shape[1]


def lstm_step(weights, xs, targets, rate):
    """(loss, new weights)."""
    loss, found = glow.value_and_grad(lstm_loss)(weights, xs, targets)
    w, u, b, head, shift = weights
    dw, du, db, dhead, dshift = found
    return loss, (w - rate * dw, u - rate * du, b - rate * db, head - rate * dhead, shift - rate * dshift)


def lstm() -> tuple[dict[str, Step], Callable[[], float]]:
    """The ways to run a training step, and the difference of their losses after some steps."""
    import onnx
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)

    class Net(nn.Module):
        """LSTM and classifier."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(INPUTS, UNITS)
            self.head = nn.Linear(UNITS, CLASSES)

        def forward(self, x: Any) -> Any:
            """Scores of the classes."""
            return self.head(self.lstm(x)[0][-1])

    net = Net()
    random = np.random.default_rng(0)
    xs = random.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    labels = random.integers(0, CLASSES, BATCH)
    targets = np.eye(CLASSES, dtype=np.float32)[labels]
    p = {n: v.detach().numpy().copy() for n, v in net.named_parameters()}
    bias = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
    weights = (
        np.ascontiguousarray(p["lstm.weight_ih_l0"].T), np.ascontiguousarray(p["lstm.weight_hh_l0"].T),
        bias, np.ascontiguousarray(p["head.weight"].T), p["head.bias"],
    )  # fmt: skip
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, torch.tensor(xs), file, dynamo=False, do_constant_folding=False)
    model = onnx.load_from_string(file.getvalue())
    trainer = glow.Trainer(model, "cross_entropy", glow.optim.SGD(lr=RATE))
    inputs = {trainer.inputs[0].name: xs}
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    data, truth = torch.tensor(xs), torch.tensor(labels)
    compiled = glow.jit(lstm_step)
    now = [weights]

    def function() -> float:
        loss, now[0] = compiled(now[0], xs, targets, RATE)
        return float(loss)

    def peer() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data), truth)
        loss.backward()
        optimizer.step()
        return loss.item()

    ways: dict[str, Step] = {
        "function": function,
        "graph": lambda: trainer.step(inputs, labels),
        "pytorch": peer,
    }

    def difference() -> float:
        # The first losses: the biases are one parameter in the function and two in the others.
        found = [step() for step in ways.values()]
        return float(max(found) - min(found))

    return ways, difference


def mlp_value(w, b, v, c, x):
    """A perceptron of one hidden layer."""
    return np.maximum(x @ w + b, 0.0) @ v + c


def mlp() -> tuple[dict[str, Step], Callable[[], float]]:
    """A small network: what a call costs."""
    random = np.random.default_rng(0)

    def made(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    x, w, b, v, c = made(8, 64), made(64, 64), made(64), made(64, 10), made(10)
    f = glow.jit(mlp_value)
    graph = glow.GraphBuilder()
    given = [graph.placeholder(n, a.shape) for n, a in zip("wbvcx", (w, b, v, c, x), strict=True)]
    hidden = graph.relu(graph.add(graph.matmul(given[4], given[0]), given[1]))
    graph.save(graph.add(graph.matmul(hidden, given[2]), given[3]), "y")
    net = glow.compile(graph)
    inputs = dict(zip("wbvcx", (w, b, v, c, x), strict=True))
    ways: dict[str, Step] = {
        "function": lambda: f(w, b, v, c, x),
        "graph": lambda: net.run(inputs)["y"],
        "numpy": lambda: mlp_value(w, b, v, c, x),
    }

    def difference() -> float:
        found = [np.asarray(step()) for step in ways.values()]
        return float(max(np.abs(found[0] - other).max() for other in found[1:]))

    return ways, difference


CASES = {"lstm": (lstm, 5), "mlp": (mlp, 500)}


def measure(name: str, rounds: int = 12) -> dict[str, Any]:
    """Milliseconds of each way to run a case, and how far their values differ."""
    make, count = CASES[name]
    ways, difference = make()
    apart = difference()
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for way, step in ways.items():
            start = time.perf_counter()
            for _ in range(count):
                step()
            best[way] = min(best[way], (time.perf_counter() - start) / count * 1e3)
    return {"case": name, "milliseconds": best, "difference": apart}


def main() -> None:
    """Measure what was asked for and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--json", action="store_true", help="a line of JSON for each case")
    arguments = parser.parse_args()
    for name in arguments.cases or list(CASES):
        found = measure(name)
        if arguments.json:
            print(json.dumps(found))
            continue
        times = ", ".join(f"{way} {ms:.4g} ms" for way, ms in found["milliseconds"].items())
        print(f"{name}: {times}; values differ by {found['difference']:.2g}")


if __name__ == "__main__":
    main()
