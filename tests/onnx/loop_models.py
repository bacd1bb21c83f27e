"""Models with loops, and one program for every length of them beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(0)
node = helper.make_node
info = helper.make_tensor_value_info
LENGTHS = 12, 9, 33, 10, 70, 17, 1


def weight(*shape: int) -> Array:
    """Some numbers of which products stay small."""
    return (RNG.standard_normal(shape) * 0.3).astype(np.float32)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], **weights: Any) -> onnx.GraphProto:
    """A graph whose weights are given by name."""
    values = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
    return helper.make_graph(nodes, "body", inputs, outputs, values)


def model(main: onnx.GraphProto) -> onnx.ModelProto:
    """The model of a graph."""
    made = helper.make_model(main, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def feeds(session: ort.InferenceSession, sizes: dict[str, int]) -> dict[str, Array]:
    """Inputs of some sizes, by the names of dimensions."""
    shapes: dict[str, list[Any]] = {i.name: [sizes.get(d, d) for d in i.shape] for i in session.get_inputs()}
    return {n: RNG.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def same(net: glow.Executable, session: ort.InferenceSession, feed: dict[str, Array]) -> None:
    """A run gives what onnxruntime gives."""
    got = net.run(feed)
    wanted: list[Any] = session.run(None, feed)  # pyright: ignore[reportAssignmentType]
    for output, want in zip(session.get_outputs(), wanted, strict=True):
        assert got[output.name].shape == want.shape
        np.testing.assert_allclose(got[output.name], want, rtol=1e-4, atol=2e-5)


def one_program(
    made: onnx.ModelProto,
    sizes: Sequence[dict[str, int]] = tuple({"n": n} for n in LENGTHS),
    **options: Any,
) -> glow.Executable:
    """Every size gives what onnxruntime gives, and those from the second on by one program, but for ones."""
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(made, **options)
    for number, now in enumerate(sizes):
        same(net, session, feeds(session, now))
        assert not net.report().notes.get("host")
        if number and 1 not in now.values():
            assert str(net.report().notes["sizes"]).startswith("any"), net.report().notes
    return net


def layer(axis: int = 0, out_axis: int = 0, back: int = 0, batch: Any = 1) -> onnx.ModelProto:
    """A layer of a state space model: h = a h + x B, y = h C + d x."""
    body = graph(
        [
            node("Mul", ["h", "a"], ["ha"]),
            node("MatMul", ["x", "b"], ["xb"]),
            node("Add", ["ha", "xb"], ["h1"]),
            node("MatMul", ["h1", "c"], ["hc"]),
            node("Mul", ["x", "d"], ["xd"]),
            node("Add", ["hc", "xd"], ["y"]),
        ],
        [info("h", F, [batch, 6]), info("x", F, [batch, 5])],
        [info("h1", F, [batch, 6]), info("y", F, [batch, 5])],
    )
    scan = node(
        "Scan",
        ["h0", "xs"],
        ["last", "ys"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[out_axis],
        scan_input_directions=[back],
        scan_output_directions=[back],
    )

    def rows(at: int) -> list[Any]:
        shape: list[Any] = [batch, 5]
        shape.insert(at, "n")
        return shape

    outputs = [info("last", F, [batch, 6]), info("ys", F, rows(out_axis))]
    weights = {"a": np.full(6, 0.8, np.float32), "b": weight(5, 6), "c": weight(6, 5), "d": weight(5)}
    return model(graph([scan], [info("h0", F, [batch, 6]), info("xs", F, rows(axis))], outputs, **weights))


def cell(*outputs: str) -> onnx.GraphProto:
    """A recurrent cell that gathers its row; it can also use the number of the turn."""
    made = graph(
        [
            node("Gather", ["xs", "i"], ["x"], axis=0),
            node("MatMul", ["x", "w"], ["xw"]),
            node("MatMul", ["h", "u"], ["hu"]),
            node("Add", ["xw", "hu"], ["s"]),
            node("Tanh", ["s"], ["h1"]),
            node("Cast", ["i"], ["real"], to=F),
            node("Mul", ["h1", "real"], ["y"]),
            node("Gather", ["xs", "minus"], ["end"], axis=0),
            node("Add", ["end", "y"], ["z"]),
            node("Identity", ["go"], ["go2"]),
        ],
        [info("i", I, []), info("go", B, []), info("h", F, [2, 5])],
        [info("go2", B, []), info("h1", F, [2, 5]), *(info(o, F, [2, 5]) for o in outputs)],
        minus=np.int64(-1),
    )
    return made
