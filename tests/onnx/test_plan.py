"""Plans of models that are no static graph: shapes that depend on data, loops, sequences; imports."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.core.errors import Problem
from glow_dialects.core.types import Array
from glow_frontends.onnx import ModelPlan
from glow_frontends.onnx.plan import graph, stage
from glow_runtime.compile import compile_module
from glow_runtime.control import ControlProgram

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, kind: int = F, shape: list[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, Array] | None = None,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(v, n) for n, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(m: onnx.ModelProto, *feeds: dict[str, Array]) -> glow.Executable:
    """One executable gives for every feed what onnxruntime gives."""
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(m, backend="interpreter")
    for feed in feeds:
        got = net.run(feed)
        for output, want in zip(m.graph.output, session.run(None, feed), strict=True):
            np.testing.assert_allclose(got[output.name], np.asarray(want), rtol=1e-5, atol=1e-6)
    return net


RNG = np.random.default_rng(0)


def test_a_shape_that_depends_on_data() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["r", "rows"], ["values"]),
        helper.make_node("Exp", ["values"], ["y"]),
    ]
    m = model(nodes, [info("x", F, [5, 7])], [info("y")])
    feeds = [{"x": RNG.standard_normal((5, 7)).astype(np.float32)} for _ in range(3)]
    net = check(m, *feeds)
    assert net.program.report.notes["host"] == set()


def test_a_range_that_depends_on_data() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["limit"], to=I),
        helper.make_node("Range", ["zero", "limit", "one"], ["r"]),
        helper.make_node("Mul", ["r", "r"], ["y"]),
    ]
    weights = {"zero": np.array(0), "one": np.array(1)}
    m = model(nodes, [info("x", F, [4])], [info("y", I)], weights)
    check(m, *({"x": np.array([1, 2, n, 3], np.float32)} for n in (9, 4, 1, 7, 8, 12, 30)))


def loop_model() -> onnx.ModelProto:
    """x doubled until its sum passes 100, every sum kept."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["x_in", "x_in"], ["x_out"]),
            helper.make_node("ReduceSum", ["x_out"], ["total"], keepdims=0),
            helper.make_node("Less", ["total", "limit"], ["go"]),
            helper.make_node("Identity", ["total"], ["kept"]),
        ],
        "body",
        [info("i", I, []), info("c", B, []), info("x_in", F, [3])],
        [info("go", B, []), info("x_out", F, [3]), info("kept", F, [])],
    )
    nodes = [helper.make_node("Loop", ["", "yes", "x"], ["y", "sums"], body=body)]
    weights = {"yes": np.array(True), "limit": np.array(100, np.float32)}
    return model(nodes, [info("x", F, [3])], [info("y", F, [3]), info("sums")], weights)


def test_a_loop_until_data_say_stop() -> None:
    net = check(
        loop_model(),
        {"x": np.array([1, 2, 3], np.float32)},
        {"x": np.array([0.1, 0.2, 0.3], np.float32)},
        {"x": np.array([40, 20, 30], np.float32)},
    )
    assert net.program.report.notes["host"] == {"Loop"}


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_branches_of_different_shapes(shape: tuple[int, ...]) -> None:
    small = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["a"])], "then", [], [info("a")])
    large = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [info("b")])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["z"], then_branch=small, else_branch=large),
        helper.make_node("Mul", ["z", "two"], ["y"]),
    ]
    weights = {"zero": np.array(0, np.float32), "two": np.array(2, np.float32)}
    m = model(nodes, [info("x", F, list(shape))], [info("y")], weights)
    check(m, {"x": np.ones(shape, np.float32)}, {"x": -np.ones(shape, np.float32)})


def test_branches_of_one_shape_stay_compiled() -> None:
    then = helper.make_graph([helper.make_node("Exp", ["x"], ["a"])], "then", [], [info("a", F, [4])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [info("b", F, [4])])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=then, else_branch=other),
    ]
    m = model(nodes, [info("x", F, [4])], [info("y", F, [4])], {"zero": np.array(0, np.float32)})
    net = check(m, {"x": np.ones(4, np.float32)}, {"x": -np.ones(4, np.float32)})
    assert "host" not in net.program.report.notes


def test_a_shape_input_is_specialised_on() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    m = model(nodes, [info("x", F, [2, 6]), info("s", I, ["n"])], [info("y")])
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    net = check(m, {"x": x, "s": np.array([3, 4])}, {"x": x, "s": np.array([12])})
    assert "host" not in net.program.report.notes


def test_sequences_at_the_border() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", F, None)
    nodes = [
        helper.make_node("SequenceInsert", ["s", "x"], ["longer"]),
        helper.make_node("ConcatFromSequence", ["longer"], ["y"], axis=0),
        helper.make_node("SequenceLength", ["longer"], ["n"]),
    ]
    m = model(nodes, [sequence, info("x", F, ["k"])], [info("y"), info("n", I)])
    net = glow.compile(m, backend="interpreter")
    for lengths in ((1, 2), (3,), ()):
        parts = [np.full(k, k, np.float32) for k in lengths]
        out = net.run({"s": parts, "x": np.zeros(2, np.float32)})
        np.testing.assert_array_equal(out["y"], np.concatenate([*parts, np.zeros(2, np.float32)]))
        assert out["n"] == len(parts) + 1


def test_a_sequence_of_known_tensors() -> None:
    """Where nothing is left to compute there is no program."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("SequenceConstruct", ["s", "s"], ["y"]),
    ]
    output = helper.make_tensor_sequence_value_info("y", I, None)
    net = glow.compile(model(nodes, [info("x", F, ["n", 2])], [output]), backend="interpreter")
    for n in (3, 4):
        (first, second) = net.run({"x": np.zeros((n, 2), np.float32)})["y"]
        assert first.tolist() == second.tolist() == [n, 2]


@pytest.mark.slow
def test_a_long_loop_stays_a_loop() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["x_in", "rate"], ["x_out"]),
            helper.make_node("Identity", ["c"], ["go"]),
        ],
        "body",
        [info("i", I, []), info("c", B, []), info("x_in", F, [3])],
        [info("go", B, []), info("x_out", F, [3])],
    )
    nodes = [helper.make_node("Loop", ["count", "yes", "x"], ["y"], body=body)]
    weights = {"count": np.array(5000), "yes": np.array(True), "rate": np.array(0.9999, np.float32)}
    m = model(nodes, [info("x", F, [3])], [info("y", F, [3])], weights)
    net = check(m, {"x": np.array([1, 2, 3], np.float32)})
    assert isinstance(net.program, ControlProgram)


def test_a_branch_that_could_not_run_does_no_harm() -> None:
    bad = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["a"])], "then", [], [info("a")])
    good = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [info("b")])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "large"], ["test"]),
        helper.make_node("If", ["test"], ["y"], then_branch=bad, else_branch=good),
    ]
    weights = {"large": np.array(1e9, np.float32), "w": np.ones((5, 5), np.float32)}
    m = model(nodes, [info("x", F, ["n", "m"])], [info("y")], weights)
    net = glow.compile(m, backend="interpreter")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(net.run({"x": x})["y"], -x)
    assert "host" in net.program.report.notes


def test_a_body_is_compiled_once() -> None:
    built: list[ModuleOp] = []

    def build(module: ModuleOp) -> Any:
        built.append(module)
        return compile_module(module, "interpreter")

    plan = ModelPlan(loop_model(), None, build)
    for start in (1.0, 0.1, 3.0):
        plan.run({"x": np.full(3, start, np.float32)}, {})
    assert len(built) == 1


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The operators of each import of a stage, in order."""
    seen: list[list[str]] = []

    def counted(source: Any, nodes: Any, *more: Any) -> Any:
        seen.append([n.op_type for n in nodes.values()])
        return stage.import_stage(source, nodes, *more)

    monkeypatch.setattr(graph, "import_stage", counted)
    return seen


def test_a_static_model_is_imported_once(imported: list[list[str]]) -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", F, ["n"])], [info("y")])
    net = check(m, *({"x": np.ones(n, np.float32)} for n in (2, 3, 2, 3)))
    assert imported == [["Relu"], ["Relu"]]  # one for each length
    assert "host" not in net.report().notes


def test_nothing_is_imported_for_nothing(imported: list[list[str]]) -> None:
    """What depends on data is imported again only for a length that is new; the rest belongs to one stage."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Unique", ["r"], ["u"]),
        helper.make_node("Exp", ["u"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    m = model(nodes, [info("x", F, [4])], [info("y"), info("z")])
    rows = [[1, 1, 2, 3], [5, 5, 6, 7], [1, 1, 1, 2], [8, 9, 9, 9]]
    net = check(m, *({"x": np.array(row, np.float32)} for row in rows))
    assert imported == [["Relu", "Unique", "Exp", "Neg"], ["Exp"], ["Exp"]]
    assert net.report().notes["host"] == {"Unique"}


def test_every_problem_of_a_model_is_told_at_once() -> None:
    """Those of nodes that wait for data, too, as far as they are known."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Hardmax", ["places"], ["h"]),
        helper.make_node("Nothing", ["h"], ["y"], name="behind"),
        helper.make_node("Transpose", ["x"], ["z"], perm=[0, 0], name="beside"),
    ]
    m = model(nodes, [info("x", F, [4, 2])], [info("y"), info("z")])
    with pytest.raises(glow.ImportProblems) as caught:
        glow.compile(m, backend="interpreter")
    assert [p.node for p in caught.value.problems if isinstance(p, Problem)] == ["behind", "beside"]


def test_a_new_shape_is_logged_not_printed(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is new is named, from the second program on."""
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    m = model([node], [info("x", F, ["n"]), info("s", I, [2])], [info("y")])
    net = glow.compile(m, backend="interpreter")
    with caplog.at_level("INFO", logger="glow"):
        for count, shape in ((4, [2, 2]), (6, [2, 3]), (6, [3, 2])):
            net.run({"x": np.zeros(count, np.float32), "s": np.array(shape)})
    assert [r.getMessage() for r in caplog.records] == [
        "compiling for x=6, s=[2, 3]",
        "compiling for s=[3, 2]",
    ]
    assert capsys.readouterr() == ("", "")


def test_a_known_input_of_a_program_of_the_whole() -> None:
    """Contents that a stage was specialised on are still an input of a program of the whole model."""
    tensors = [
        numpy_helper.from_array(np.array(a, np.int64), n) for n, a in (("p", [0, 3, 0, 4]), ("a", [1, 3]))
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 1, 2]), ("v", []))
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Pad", ["x", "p", "v", "a"], ["y"], mode="constant")
    graph = helper.make_graph([node], "g", ends, [result], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.arange(4, dtype=np.float32).reshape(1, 2, 1, 2)
    net = glow.compile(model)
    for value in (1.5, 2.5):
        out = net.run({"x": x, "v": np.array(value, np.float32)})["y"]
        expected = np.pad(x, ((0, 0), (0, 0), (0, 0), (3, 4)), constant_values=value)
        np.testing.assert_array_equal(out, expected)
