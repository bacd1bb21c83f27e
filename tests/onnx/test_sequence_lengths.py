"""LSTM, GRU and RNN with `sequence_lens` as onnxruntime computes them, also of sizes that the run tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_backends.cpu.open_program import OpenProgram

RNG = np.random.default_rng(3)
INPUTS, HIDDEN = 5, 12


def model(kind: str, direction: str, steps: int | str, samples: int | str) -> Any:
    """A network of one node whose input has those sizes."""
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1 + (direction == "bidirectional")
    rows = gates * HIDDEN
    shapes = {"w": (count, rows, INPUTS), "r": (count, rows, HIDDEN), "b": (count, 2 * rows)}
    weights = [
        numpy_helper.from_array((RNG.normal(size=s) * 0.4).astype(np.float32), n) for n, s in shapes.items()
    ]
    outputs = ["y", "last", "cell"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(
        kind, ["x", "w", "r", "b", "lengths"], outputs, hidden_size=HIDDEN, direction=direction
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "network",
        [
            value("x", TensorProto.FLOAT, [steps, samples, INPUTS]),
            value("lengths", TensorProto.INT32, [samples]),
        ],
        [value(n, TensorProto.FLOAT, None) for n in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_as_onnxruntime(kind: str, direction: str) -> None:
    """Results behind a sample's end are zeros, its last state is that of its end."""
    ort = pytest.importorskip("onnxruntime")
    proto = model(kind, direction, "T", "N")
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    nets = [glow.compile(proto, backend="cpu", threads=threads) for threads in (1, 2)]
    for steps, samples in ((9, 13), (6, 1), (9, 13), (4, 40)):
        feed = {
            "x": RNG.normal(size=(steps, samples, INPUTS)).astype(np.float32),
            "lengths": RNG.integers(1, steps + 1, samples).astype(np.int32),
        }
        expected = session.run(None, feed)
        for net in nets:
            for got, want in zip(net.run(feed).values(), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
            assert steps == 9 or isinstance(net.program, OpenProgram)
