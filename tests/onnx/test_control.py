"""Branches and loops that run-time data decide, against onnxruntime: one native program on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_runtime.control import ControlProgram

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(0)
node = helper.make_node


def info(name: str, kind: int = F, shape: list[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], **weights: Array) -> onnx.GraphProto:
    values = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
    return helper.make_graph(nodes, "body", inputs, outputs, values)


def model(main: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def halving() -> onnx.GraphProto:
    """x is multiplied by a matrix and halved until its sum of squares is small; the turns are counted."""
    body = graph(
        [
            node("MatMul", ["w", "v"], ["t"]),
            node("Tanh", ["t"], ["s"]),
            node("Mul", ["s", "half"], ["v2"]),
            node("ReduceSumSquare", ["v2"], ["q"], keepdims=0),
            node("Greater", ["q", "limit"], ["on2"]),
            node("Add", ["k", "one"], ["k2"]),
        ],
        [info("i", I, []), info("on", B, []), info("v", F, [4, 3]), info("k", I, [])],
        [info("on2", B, []), info("v2", F, [4, 3]), info("k2", I, [])],
        half=np.float32(0.9), limit=np.float32(0.01), one=np.int64(1),
    )  # fmt: skip
    return graph(
        [
            node("Relu", ["x"], ["r"]),
            node("Loop", ["", "go", "r", "zero"], ["y", "turns"], body=body),
            node("Exp", ["y"], ["z"]),
        ],
        [info("x", F, [4, 3])],
        [info("z", F, [4, 3]), info("turns", I, [])],
        w=RNG.normal(size=(4, 4)).astype(np.float32) * 0.6, go=np.array(True), zero=np.int64(0),
    )  # fmt: skip


def counted() -> onnx.GraphProto:
    """As many turns as the data say, with a branch in each; the number of the turn is used."""
    yes = graph([node("Add", ["v", "f"], ["a"])], [], [info("a", F, [5])])
    no = graph([node("Mul", ["v", "v"], ["p"]), node("Sub", ["p", "x"], ["b"])], [], [info("b", F, [5])])
    body = graph(
        [
            node("Cast", ["i"], ["f"], to=F),
            node("ReduceSum", ["v"], ["s"], keepdims=0),
            node("Less", ["s", "f"], ["c"]),
            node("If", ["c"], ["v2"], then_branch=yes, else_branch=no),
            node("Identity", ["on"], ["on2"]),
        ],
        [info("i", I, []), info("on", B, []), info("v", F, [5])],
        [info("on2", B, []), info("v2", F, [5])],
    )
    return graph(
        [
            node("ReduceMax", ["x"], ["m"], keepdims=0),
            node("Mul", ["m", "ten"], ["m10"]),
            node("Cast", ["m10"], ["n"], to=I),
            node("Loop", ["n", "", "x"], ["y"], body=body),
        ],
        [info("x", F, [5])],
        [info("y", F, [5])],
        ten=np.float32(10),
    )


def branches() -> onnx.GraphProto:
    """Branches within branches; one hands a weight on; values of outer graphs are used inside."""
    deep_yes = graph([node("Tanh", ["r"], ["c"])], [], [info("c", F, [3, 4])])
    deep_no = graph([node("Identity", ["w"], ["d"])], [], [info("d", F, [3, 4])])
    yes = graph(
        [
            node("ReduceMax", ["r"], ["m"], keepdims=0),
            node("Greater", ["m", "two"], ["big"]),
            node("If", ["big"], ["a"], then_branch=deep_yes, else_branch=deep_no),
        ],
        [],
        [info("a", F, [3, 4])],
        two=np.float32(2),
    )
    no = graph([node("Neg", ["r"], ["n"]), node("Add", ["n", "w"], ["b"])], [], [info("b", F, [3, 4])])
    main = [
        node("Add", ["x", "w"], ["r"]),
        node("ReduceMean", ["x"], ["mean"], keepdims=0),
        node("Greater", ["mean", "zero"], ["up"]),
        node("If", ["up"], ["y"], then_branch=yes, else_branch=no),
        # Of several hundred nodes it is better to run one side only.
        *[node("Sin", [f"y{i or ''}"], [f"y{i + 1}"]) for i in range(3)],
    ]
    weight = RNG.normal(size=(3, 4)).astype(np.float32)
    return graph(main, [info("x", F, [3, 4])], [info("y3", F, [3, 4])], w=weight, zero=np.float32(0))


def feeds(shape: tuple[int, ...]) -> list[dict[str, Array]]:
    return [{"x": (RNG.normal(size=shape) + s).astype(np.float32)} for s in (0.0, 0.3, -0.4, 2.0, -2.0)]


def long_branches() -> onnx.GraphProto:
    """Branches that are too long to compute both."""

    def side(start: str, operator: str, name: str) -> onnx.GraphProto:
        names = [start, *(f"{name}{i}" for i in range(120))]
        nodes = [node(operator, [a], [b]) for a, b in zip(names, names[1:], strict=False)]
        return graph(nodes, [], [info(names[-1], F, [3, 4])])

    main = [
        node("ReduceMean", ["x"], ["mean"], keepdims=0),
        node("Greater", ["mean", "zero"], ["up"]),
        node("If", ["up"], ["y"], then_branch=side("x", "Sin", "a"), else_branch=side("x", "Cos", "b")),
    ]
    return graph(main, [info("x", F, [3, 4])], [info("y", F, [3, 4])], zero=np.float32(0))


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    ("main", "shape"),
    [(halving, (4, 3)), (counted, (5,)), (long_branches, (3, 4))],
    ids=lambda v: str(v)[:20],
)
def test_against_onnxruntime(main: Any, shape: tuple[int, ...], backend: str) -> None:
    """One program gives for every feed what onnxruntime gives, with nothing on the host."""
    m = model(main())
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(m, backend=backend)
    for feed in feeds(shape):
        got = net.run(feed)
        for output, want in zip(m.graph.output, session.run(None, feed), strict=True):
            np.testing.assert_allclose(got[output.name], np.asarray(want), rtol=1e-4, atol=1e-5)
            assert got[output.name].dtype == np.asarray(want).dtype
    assert isinstance(net.program, ControlProgram)
    assert not net.program.report.notes.get("host")


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_nested_branches(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short branches are selections, as operations of their own the same values."""
    from glow_frontends.onnx import import_model
    from glow_frontends.onnx.rules import control
    from glow_runtime.compile import compile_module

    monkeypatch.setattr(control, "MAX_BRANCHES", 0)
    m = model(branches())
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    program = compile_module(import_model(m, control=True), backend)
    assert isinstance(program, ControlProgram)
    for feed in feeds((3, 4)):
        np.testing.assert_allclose(program.run(feed)["y3"], session.run(None, feed)[0], rtol=1e-5, atol=1e-6)


def test_options_of_the_backend() -> None:
    """The kernels of a loop's body are those that the options ask for."""
    values = [1, 32, 24, 24]
    body = graph(
        [
            node("Conv", ["v", "w"], ["v2"], pads=[1, 1, 1, 1]),
            node("ReduceSumSquare", ["v2"], ["q"], keepdims=0),
            node("Greater", ["q", "limit"], ["on2"]),
        ],
        [info("i", I, []), info("on", B, []), info("v", F, values)],
        [info("on2", B, []), info("v2", F, values)],
        limit=np.float32(0.01),
    )
    m = model(
        graph(
            [node("Loop", ["", "go", "x"], ["y"], body=body)],
            [info("x", F, values)],
            [info("y", F, values)],
            w=RNG.normal(size=(32, 32, 3, 3)).astype(np.float32) * 0.01, go=np.array(True),
        )
    )  # fmt: skip
    feed = {"x": RNG.random(values, np.float32)}
    want = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
    for winograd in (True, False):
        net = glow.compile(m, winograd=winograd)
        np.testing.assert_allclose(net.run(feed)["y"], np.asarray(want), rtol=1e-3, atol=1e-6)
        assert isinstance(net.program, ControlProgram)
        (made,) = net.program.functions.instances.values()
        assert made.native is not None
        assert any("winograd" in name for name in made.native.graphs.kernels) == winograd
