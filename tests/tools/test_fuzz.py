"""Mutated programs and models: whatever is in a file, the tools answer with a message or a program."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from xdsl.utils.exceptions import ParseError, VerifyException

from glow_dialects.core.errors import GlowError
from glow_frontends.onnx import import_model
from glow_tools import opt
from glow_tools.common import parse_text

pytestmark = pytest.mark.slow

#: Text of every shape that the parser knows: both levels, attributes, types, symbols.
PROGRAM = """
glow.constant @w = dense<[1.0, -2.0]> : tensor<2xf32>
glow.constant @big = #glow.resource<"big"> : tensor<64x64xf32>
glow.placeholder @x input : tensor<1x2x4x4xf32>
glow.placeholder @q input : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
glow.placeholder @out output : tensor<1x2x2x2xf32>
glow.func @main attributes {a = 1 : i64} {
  %x = glow.get @x : tensor<1x2x4x4xf32>
  %p = glow.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %r = glow.clip %p {min = 0.0 : f64, max = 6.0 : f64} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  glow.save %r to @out : tensor<1x2x2x2xf32>
}
glow_instr.func @step attributes {arena = 64 : i64} declare {
  %w = glow_instr.weight @w constant : memref<2xf32>
} program {
  %a = glow_instr.alloc at 0 : memref<2xf32>
  glow_instr.relu @out %a, @in %w : memref<2xf32>, memref<2xf32>
  %v = glow_instr.tensorview %a offset 1 : memref<2xf32> to memref<1xf32>
  glow_instr.dealloc @out %a : memref<2xf32>
}
"""  # noqa: E501
PIECES = [
    *("glow.func", "glow_instr.func", "@main", "@x", "%x", "{", "}", "<", ">", "(", ")", ":", "->", "?"),
    *("dense<", "array<i64: 1>", "tensor<", "memref<2xf32>", "!quant.uniform<i8:f32, 0.0>", "i1", "f32"),
    *('"', "#glow.resource<", "-1", "999999999999999999999", "0x", "1e400", "pred %x", "@out", "\n", "\0"),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The program with a few cuts, repetitions and insertions."""
    text = PROGRAM
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(text) - 1)))
        stop = min(len(text), start + draw(st.integers(0, 30)))
        change = draw(st.sampled_from(["cut", "repeat", "insert", "move"]))
        match change:
            case "cut":
                text = text[:start] + text[stop:]
            case "repeat":
                text = text[:stop] + text[start:stop] + text[stop:]
            case "insert":
                text = text[:start] + draw(st.sampled_from(PIECES)) + text[start:]
            case _:
                text = text[:start] + text[stop:] + text[start:stop]
    return text


def test_the_program_is_valid() -> None:
    """What is mutated is good to begin with."""
    parse_text(PROGRAM, "program").verify()


@settings(max_examples=120)
@given(mutated())
def test_mutated_program(text: str) -> None:
    """Parsing and verifying end well, or with an error that a user can read."""
    try:
        module = parse_text(text, "program")
        module.verify()
    except (GlowError, ParseError, VerifyException):
        return
    str(module)


@settings(max_examples=12)
@given(mutated(), st.sampled_from(["optimize", "lower", "lower,instr"]))
def test_mutated_program_compiles_or_is_refused(text: str, passes: str) -> None:
    """glow-opt with passes: no traceback and no internal error, whatever the program."""
    done = run(opt.main, "-", "-p", passes, text=text)
    assert done.status in (0, 1)
    assert "internal error" not in done.messages, done.messages
    assert (done.status == 1) == done.messages.startswith("error: ")


def network() -> bytes:
    """A model with weights, attributes, a subgraph and several inputs."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((2, 1, 3, 3)).astype(np.float32), "w"),
        numpy_helper.from_array(np.array([1, -1], np.int64), "shape"),
        numpy_helper.from_array(rng.standard_normal((8, 3)).astype(np.float32), "m"),
    ]
    then = helper.make_graph(
        [helper.make_node("Relu", ["g"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, [1, 3])],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["g"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [1, 3])],
    )
    constant = numpy_helper.from_array(np.array(True), "c")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Reshape", ["c", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "m"], ["g"], alpha=0.5),
        helper.make_node("Constant", [], ["flag"], value=constant),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made.SerializeToString()


NETWORK = network()


@settings(max_examples=120)
@given(st.lists(st.tuples(st.integers(0, len(NETWORK) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_mutated_bytes(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]) -> None:
    """Bytes of a model file changed at random."""
    data = bytearray(NETWORK)
    for place, value in changes:
        data[place] = value
    path = tmp_path_factory.getbasetemp() / "mutated.onnx"
    path.write_bytes(data)
    try:
        import_model(path)
    except GlowError as error:
        assert str(error).strip()


@st.composite
def mutated_models(draw: st.DrawFn) -> onnx.ModelProto:
    """A model that still reads as one, with attributes, names, types and shapes changed."""
    model = onnx.load(io.BytesIO(NETWORK))
    graph = model.graph
    names = [*(n for node in graph.node for n in (*node.input, *node.output)), "nowhere", ""]
    for _ in range(draw(st.integers(1, 3))):
        node = graph.node[draw(st.integers(0, len(graph.node) - 1))]
        change = draw(st.sampled_from(["input", "output", "drop", "attribute", "op", "shape", "type"]))
        if change == "input" and node.input:
            node.input[draw(st.integers(0, len(node.input) - 1))] = draw(st.sampled_from(names))
        elif change == "output" and node.output:
            node.output[0] = draw(st.sampled_from(names))
        elif change == "drop" and node.input:
            del node.input[-1]
        elif change == "attribute" and node.attribute:
            attribute = node.attribute[draw(st.integers(0, len(node.attribute) - 1))]
            if attribute.ints:
                attribute.ints[0] = draw(st.sampled_from([-1, 0, 1 << 40, 7]))
            attribute.type = draw(st.sampled_from([attribute.type, 1, 2, 3, 7]))
        elif change == "op":
            node.op_type = draw(st.sampled_from(["Add", "MaxPool", "Concat", "Loop", "LSTM", "Resize", ""]))
        elif change == "shape":
            dims = graph.input[0].type.tensor_type.shape.dim
            dims[draw(st.integers(0, len(dims) - 1))].dim_value = draw(st.sampled_from([-1, 0, 5, 1 << 40]))
        else:
            graph.input[0].type.tensor_type.elem_type = draw(st.integers(0, 24))
    return model


@settings(max_examples=120)
@given(mutated_models())
def test_mutated_model(model: onnx.ModelProto) -> None:
    """Models that are wrong in meaning."""
    try:
        import_model(model)
    except GlowError as error:
        assert str(error).strip()


def graph_of(nodes: list[onnx.NodeProto], element: int = TensorProto.FLOAT) -> onnx.GraphProto:
    """Nodes from x [2, 4] to y."""
    source = helper.make_tensor_value_info("x", element, [2, 4])
    return helper.make_graph(nodes, "g", [source], [onnx.ValueInfoProto(name="y")])


def call(kind: str, source: str, result: str) -> onnx.NodeProto:
    """A node of the functions' domain."""
    return helper.make_node(kind, [source], [result], domain="d")


def test_functions_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty functions, each calling the next twice: refused long before they are all expanded."""
    monkeypatch.setattr("glow_frontends.onnx.scope.MAX_EXPANDED", 300)
    versions = [helper.make_opsetid("d", 1), helper.make_opsetid("", 21)]
    functions = [
        helper.make_function(
            "d", f"F{i}", ["x"], ["y"], [call(f"F{i + 1}", "x", "a"), call(f"F{i + 1}", "a", "y")], versions
        )
        for i in range(40)
    ]
    last = helper.make_function("d", "F40", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], versions)
    graph = graph_of([call("F0", "x", "y")])
    made = helper.make_model(graph, opset_imports=versions, functions=[*functions, last], ir_version=10)
    with pytest.raises(GlowError, match="expand to more than 300 nodes"):
        import_model(made)


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [("Range", [0, 1 << 33, 1]), ("OneHot", [[1], 1 << 33, [0, 1]]), ("CumSum", [None, 0])],
)
def test_constants_of_many_elements(kind: str, inputs: list[object]) -> None:
    """What would be computed while importing has a limit."""
    nodes: list[onnx.NodeProto] = []
    for index, value in enumerate(inputs):
        name = f"i{index}"
        if value is None:
            held = numpy_helper.from_array(np.array([1 << 33], np.int64))
            nodes.append(helper.make_node("Constant", [], ["s"], value=held))
            nodes.append(helper.make_node("ConstantOfShape", ["s"], [name]))
            continue
        held = numpy_helper.from_array(np.array(value, np.int64))
        nodes.append(helper.make_node("Constant", [], [name], value=held))
    nodes.append(helper.make_node(kind, [f"i{i}" for i in range(len(inputs))], ["y"]))
    made = helper.make_model(graph_of(nodes), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(GlowError, match="is too large"):
        import_model(made)


def test_what_no_version_has() -> None:
    """An element type of no compiled tensor, and a version that does not fit in 32 bits."""
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    narrow = helper.make_model(graph_of(relu, TensorProto.FLOAT6E2M3), ir_version=10)
    with pytest.raises(GlowError, match="unknown element type"):
        import_model(narrow)
    late = helper.make_model(graph_of([helper.make_node("Reul", ["x"], ["y"])]), ir_version=10)
    late.opset_import[0].version = 1 << 40
    with pytest.raises(GlowError, match="did you mean Relu"):
        import_model(late)


def test_truncated_everywhere(tmp_path: Path) -> None:
    """A model cut at each of many places."""
    path = tmp_path / "cut.onnx"
    for stop in range(0, len(NETWORK), 7):
        path.write_bytes(NETWORK[:stop])
        try:
            import_model(path)
        except GlowError as error:
            assert str(error).strip()


def test_a_loop_that_doubles_a_constant() -> None:
    """Sixty turns of x = concat(x, x): refused long before memory is short."""
    value, going = helper.make_tensor_value_info("s", TensorProto.FLOAT, None), TensorProto.BOOL
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["s", "s"], ["t"], axis=0),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", going, []),
            value,
        ],
        [
            helper.make_tensor_value_info("d", going, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
        ],
    )
    graph = graph_of([helper.make_node("Loop", ["n", "", "a"], ["g"], body=body)])
    graph.node.append(helper.make_node("Add", ["g", "x"], ["y"]))
    graph.initializer.append(numpy_helper.from_array(np.array(60), "n"))
    graph.initializer.append(numpy_helper.from_array(np.ones((1, 4), np.float32), "a"))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(GlowError, match="a loop that makes constants of more than"):
        import_model(made)
