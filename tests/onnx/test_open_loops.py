"""Loops of as many turns as an input is long, against onnxruntime: one program for every length."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import glow_compiler as glow
from glow_backends.cpu.passes.cpu_turns import outline_turns
from glow_dialects.core.types import Array
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.module import functions

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


def test_scan() -> None:
    """The first length gets a program of its own, all others share two: products of few rows differ."""
    net = one_program(layer(), [{"n": n} for n in (5, 9, 2, 33, 3, 70, 500, 1)])
    assert len(net._any_size.programs()) == 2  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("axis", "out_axis", "back"), [(1, 1, 0), (0, 2, 1), (-1, 0, 1)])
def test_axes_and_directions(axis: int, out_axis: int, back: int) -> None:
    """Rows along any axis, from either end."""
    one_program(layer(axis % 3, out_axis, back))


def test_open_batch() -> None:
    """The state has an open size, too."""
    sizes = [{"n": n, "b": b} for n, b in ((5, 3), (7, 4), (2, 9), (50, 2), (8, 8), (9, 40))]
    one_program(layer(1, 1, batch="b"), sizes)


def test_several() -> None:
    """Several scanned inputs, states and results: states change places, and one stays."""
    body = graph(
        [
            node("Add", ["p", "x"], ["sum"]),
            node("Mul", ["sum", "k"], ["scaled"]),
            node("ReduceSum", ["y"], ["total"], keepdims=0),
            node("Add", ["count", "one"], ["count2"]),
            node("Identity", ["q"], ["p2"]),
            node("Identity", ["k"], ["m2"]),
            node("Tanh", ["scaled"], ["q2"]),
            node("Identity", ["k"], ["k2"]),
            node("Sub", ["q", "y"], ["r"]),
            node("Identity", ["one"], ["ones"]),
        ],
        [
            *(info(n, F, [4]) for n in "pqkm"),
            info("count", I, []),
            info("x", F, [4]),
            info("y", F, [4]),
        ],
        [
            *(info(f"{n}2", F, [4]) for n in "pqkm"),
            info("count2", I, []),
            info("r", F, [4]),
            info("total", F, []),
            info("ones", I, []),
        ],
        one=np.int64(1),
    )
    scan = node(
        "Scan",
        ["p0", "q0", "k0", "p0", "c0", "xs", "yt"],
        ["p", "q", "k", "m", "c", "rs", "totals", "ones"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[0, 1],
        scan_input_directions=[0, 1],
        scan_output_axes=[1, 0, 0],
        scan_output_directions=[1, 0, 0],
    )
    inputs = [*(info(f"{n}0", F, [4]) for n in "pqk"), info("xs", F, ["n", 4]), info("yt", F, [4, "n"])]
    outputs = [*(info(n, F, [4]) for n in "pqkm"), info("c", I, []), info("rs", F, [4, "n"])]
    outputs += [info("totals", F, ["n"]), info("ones", I, ["n"])]
    one_program(model(graph([scan], inputs, outputs, c0=np.int64(3))))


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


@pytest.mark.parametrize("less", [0, 1])
def test_loop(less: int) -> None:
    """A Loop of as many turns as the input is long, or fewer, that gathers rows and stacks results."""
    nodes = [
        node("Shape", ["xs"], ["shape"]),
        node("Gather", ["shape", "zero"], ["count"], axis=0),
        node("Sub", ["count", "less"], ["turns"]),
        node("Loop", ["turns", "true", "h0"], ["last", "ys", "zs"], body=cell("y", "z")),
    ]
    inputs = [info("h0", F, [2, 5]), info("xs", F, ["n", 2, 5])]
    outputs = [info("last", F, [2, 5]), info("ys", F, [None, 2, 5]), info("zs", F, [None, 2, 5])]
    weights = {"w": weight(5, 5), "u": weight(5, 5), "zero": np.int64(0), "true": np.array(True)}
    one_program(model(graph(nodes, inputs, outputs, **weights, less=np.int64(less))))


def test_within_a_network() -> None:
    """Layers before and behind, of open batch and length; a loop that reads what lies around it."""
    body = graph(
        [
            node("MatMul", ["h", "u"], ["hu"]),
            node("Add", ["hu", "x"], ["s"]),
            node("Add", ["s", "mean"], ["t"]),
            node("Sigmoid", ["t"], ["h1"]),
            node("Identity", ["h1"], ["row"]),
        ],
        [info("h", F, ["b", 8]), info("x", F, ["b", 8])],
        [info("h1", F, ["b", 8]), info("row", F, ["b", 8])],
    )
    scan: dict[str, Any] = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1]}
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("ReduceMean", ["p"], ["mean"], axes=[1], keepdims=0),
        node("Mul", ["mean", "none"], ["h0"]),
        node("Scan", ["h0", "p"], ["h", "ys"], body=body, **scan),
        node("MatMul", ["ys", "v"], ["out"]),
        node("Softmax", ["out"], ["y"], axis=-1),
        node("Scan", ["h", "ys"], ["last", "more"], body=body, **scan),
    ]
    outputs = [info("y", F, ["b", "n", 3]), info("last", F, ["b", 8]), info("more", F, ["b", "n", 8])]
    weights = {"w": weight(4, 8), "u": weight(8, 8), "v": weight(8, 3), "none": np.float32(0)}
    sizes = [{"n": n, "b": b} for n, b in ((5, 3), (7, 4), (2, 9), (50, 2), (6, 6))]
    one_program(model(graph(nodes, [info("x", F, ["b", "n", 4])], outputs, **weights)), sizes)


def test_loop_in_a_loop() -> None:
    """Rows of rows: both numbers of turns are open."""
    inner = graph(
        [node("Mul", ["c", "k"], ["ck"]), node("Add", ["ck", "v"], ["c1"]), node("Neg", ["c1"], ["out"])],
        [info("c", F, [3]), info("v", F, [3])],
        [info("c1", F, [3]), info("out", F, [3])],
    )
    outer = graph(
        [
            node("Scan", ["h", "row"], ["h1", "outs"], body=inner, num_scan_inputs=1),
            node("ReduceMax", ["outs"], ["most"], axes=[0], keepdims=0),
        ],
        [info("h", F, [3]), info("row", F, ["m", 3])],
        [info("h1", F, [3]), info("outs", F, ["m", 3]), info("most", F, [3])],
    )
    scan = node("Scan", ["h0", "xs"], ["last", "ys", "tops"], body=outer, num_scan_inputs=1)
    outputs = [info("last", F, [3]), info("ys", F, ["n", "m", 3]), info("tops", F, ["n", 3])]
    main = graph(
        [scan], [info("h0", F, [3]), info("xs", F, ["n", "m", 3])], outputs, k=np.full(3, 0.5, np.float32)
    )
    sizes = [{"n": n, "m": m} for n, m in ((5, 4), (7, 6), (2, 30), (40, 3), (11, 11))]
    one_program(model(main), sizes)


def test_sequence() -> None:
    """What a scripted loop appends to a list, stacked or side by side, and its length."""
    body = graph(
        [
            node("Gather", ["xs", "i"], ["x"], axis=0),
            node("Add", ["x", "h"], ["h1"]),
            node("SequenceInsert", ["list", "h1"], ["list2"]),
            node("Identity", ["go"], ["go2"]),
        ],
        [
            info("i", I, []),
            info("go", B, []),
            info("h", F, [2, 3]),
            helper.make_tensor_sequence_value_info("list", F, None),
        ],
        [
            info("go2", B, []),
            info("h1", F, [2, 3]),
            helper.make_tensor_sequence_value_info("list2", F, None),
        ],
    )
    nodes = [
        node("Shape", ["xs"], ["shape"]),
        node("Gather", ["shape", "zero"], ["turns"], axis=0),
        node("SequenceEmpty", [], ["empty"]),
        node("Loop", ["turns", "true", "h0", "empty"], ["last", "made"], body=body),
        node("ConcatFromSequence", ["made"], ["stacked"], axis=1, new_axis=1),
        node("ConcatFromSequence", ["made"], ["joined"], axis=1),
        node("SequenceLength", ["made"], ["count"]),
        node("SequenceAt", ["made", "minus"], ["end"]),
    ]
    outputs = [info("last", F, [2, 3]), info("stacked", F, [2, None, 3]), info("joined", F, [2, None])]
    outputs += [info("count", I, []), info("end", F, [2, 3])]
    inputs = [info("h0", F, [2, 3]), info("xs", F, ["n", 2, 3])]
    weights = {"zero": np.int64(0), "true": np.array(True), "minus": np.int64(-1)}
    one_program(model(graph(nodes, inputs, outputs, **weights)))


def test_branch() -> None:
    """A branch in a turn, which selects between short ways."""
    ways = [graph([node(op, ["t"], ["way"])], [], [info("way", F, [4])]) for op in ("Exp", "Neg")]
    body = graph(
        [
            node("Add", ["h", "x"], ["s"]),
            node("Tanh", ["s"], ["t"]),
            node("ReduceSum", ["t"], ["sum"], keepdims=0),
            node("Less", ["sum", "zero"], ["test"]),
            node("If", ["test"], ["h1"], then_branch=ways[0], else_branch=ways[1]),
        ],
        [info("h", F, [4]), info("x", F, [4])],
        [info("h1", F, [4])],
        zero=np.float32(0),
    )
    scan = node("Scan", ["h0", "xs"], ["last"], body=body, num_scan_inputs=1)
    inputs = [info("h0", F, [4]), info("xs", F, ["n", 4])]
    one_program(model(graph([scan], inputs, [info("last", F, [4])])))


def test_threads() -> None:
    """Several workers take each turn together."""
    body = graph(
        [node("MatMul", ["h", "u"], ["hu"]), node("Add", ["hu", "x"], ["s"]), node("Tanh", ["s"], ["h1"])],
        [info("h", F, [64, 256]), info("x", F, [64, 256])],
        [info("h1", F, [64, 256])],
    )
    scan = node("Scan", ["h0", "xs"], ["last"], body=body, num_scan_inputs=1)
    inputs = [info("h0", F, [64, 256]), info("xs", F, ["n", 64, 256])]
    made = model(graph([scan], inputs, [info("last", F, [64, 256])], u=weight(256, 256) / 8))
    net = one_program(made, [{"n": n} for n in (3, 5, 8, 2)], threads=2)
    assert net.report().notes["threads"] == 2


def test_ends_early() -> None:
    """What data end, and stacks rows, has a program for each length; the report says why."""
    body = cell("y")
    body.node[-1].CopyFrom(node("Less", ["top", "limit"], ["go2"]))
    body.node.insert(9, node("ReduceMax", ["h1"], ["top"], keepdims=0))
    nodes = [
        node("Shape", ["xs"], ["shape"]),
        node("Gather", ["shape", "zero"], ["turns"], axis=0),
        node("Loop", ["turns", "true", "h0"], ["last", "ys"], body=body, name="search"),
    ]
    inputs = [info("h0", F, [2, 5]), info("xs", F, ["n", 2, 5])]
    weights = {"w": weight(5, 5), "u": weight(5, 5), "zero": np.int64(0), "true": np.array(True)}
    outputs = [info("last", F, [2, 5]), info("ys", F, [None, 2, 5])]
    made = model(graph(nodes, inputs, outputs, **weights, limit=np.float32(0.9)))
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(made)
    for n in (5, 9, 20):
        same(net, session, feeds(session, {"n": n}))
    assert "data end Loop 'search'" in str(net.report().notes["sizes"])


def test_saved(tmp_path: Path) -> None:
    """A file has the program for every length."""
    made = layer()
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    net = one_program(made, [{"n": n} for n in (5, 9, 40)])
    net.save(tmp_path / "layer.glow")
    loaded = glow.load_program(tmp_path / "layer.glow")
    for n in (7, 40, 300):
        same(loaded, session, feeds(session, {"n": n}))


def test_one_from_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """With "never" the first program is one for any length."""
    with caplog.at_level(logging.INFO, "glow"):
        one_program(layer(), [{"n": n} for n in (4, 8, 3)], specialize="never")
    assert sum("compiled for any n" in r.getMessage() for r in caplog.records) == 1


def test_products_at_once() -> None:
    """Products without state, alone, with what is around them, and shared with the state; none is left."""
    body = graph(
        [
            node("Gemm", ["x", "w", "bias"], ["p"]),
            node("Tanh", ["p"], ["q"]),
            node("MatMul", ["q", "v"], ["s"]),
            node("Mul", ["h", "decay"], ["kept"]),
            node("Add", ["kept", "s"], ["h1"]),
            node("Identity", ["s"], ["g1"]),
            node("Abs", ["h1"], ["positive"]),
            node("MatMul", ["positive", "v"], ["mixed"]),
            node("Mul", ["x", "scale"], ["scaled"]),
            node("MatMul", ["h", "w2"], ["old"]),
            node("Add", ["old", "scaled"], ["more"]),
            node("Add", ["mixed", "g"], ["sum"]),
            node("Neg", ["q"], ["only"]),
        ],
        [info("h", F, [2, 4]), info("g", F, [2, 4]), info("x", F, [2, 3])],
        [
            info("h1", F, [2, 4]),
            info("g1", F, [2, 4]),
            info("sum", F, [2, 4]),
            info("more", F, [2, 3]),
            info("only", F, [2, 4]),
            info("positive", F, [2, 4]),
        ],
    )
    results = ["h1", "g1", "sums", "mores", "onlys", "positives"]
    scan = node("Scan", ["h0", "g0", "xs"], results, body=body, num_scan_inputs=1)
    inputs = [info("h0", F, [2, 4]), info("g0", F, [2, 4]), info("xs", F, ["n", 2, 3])]
    widths = {"h1": 0, "g1": 0, "sums": 4, "mores": 3, "onlys": 4, "positives": 4}
    outputs = [info(n, F, ["n", 2, w] if w else [2, 4]) for n, w in widths.items()]
    weights = {"w": weight(3, 4), "bias": weight(4), "v": weight(4, 4), "w2": weight(4, 3)}
    weights |= {"decay": np.float32(0.7), "scale": weight(3)}
    made = model(graph([scan], inputs, outputs, **weights))
    one_program(made)
    module = glow.load(made)
    assert outline_turns(module)
    main, turn = (function.body.block for function in functions(module))
    assert sum(isinstance(op, MatmulOp | FullyConnectedOp) for op in main.ops) == 4
    assert not any(isinstance(op, MatmulOp | FullyConnectedOp) for op in turn.ops)


def test_rows_alone() -> None:
    """A loop without state whose turns are a product is none."""
    body = graph(
        [node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])],
        [info("x", F, [2, 3])],
        [info("y", F, [2, 4])],
    )
    scan = node("Scan", ["xs"], ["ys"], body=body, num_scan_inputs=1)
    inputs, outputs = [info("xs", F, ["n", 2, 3])], [info("ys", F, ["n", 2, 4])]
    made = model(graph([scan], inputs, outputs, w=weight(3, 4)))
    one_program(made)
    module = glow.load(made)
    assert outline_turns(module)
    assert len(list(functions(module))) == 1


def test_known_length() -> None:
    """A long loop of a known length is the same code, for any batch and for one; on the interpreter, too."""
    main = layer(1, 1, batch="b").graph
    dims = main.input[1].type.tensor_type.shape.dim
    dims[1].dim_value = 150
    main.output[1].type.tensor_type.shape.dim[1].dim_value = 150
    made = model(main)
    net = one_program(made, [{"b": b} for b in (7, 9, 12)])
    assert "graphs" not in net.report().notes
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = feeds(session, {"b": 2})
    fixed = glow.compile(made, shapes={"b": 2}, threads=2)
    same(fixed, session, feed)
    assert "graphs" not in fixed.report().notes
    same(glow.compile(made, backend="interpreter"), session, feed)


def test_loaded() -> None:
    """The module of a model keeps the loop, for every length, on both backends."""
    made = layer()
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    module = glow.load(made)
    for backend in ("cpu", "interpreter"):
        net = glow.compile(module, backend=backend)
        for n in (7, 12):
            same(net, session, feeds(session, {"n": n}))


@pytest.mark.parametrize("rule", ["linear", "gated_delta"])
def test_linear_attention(rule: str) -> None:
    """LinearAttention, whose published form is a loop over time: any length and batch."""
    names = ["q", "k", "v", "s", *(["g", "beta"] if rule == "gated_delta" else [])]
    widths = {"q": 32, "k": 16, "v": 12, "g": 16, "beta": 2}
    inputs = [info(n, F, ["b", "t", widths[n]] if n in widths else ["b", 2, 8, 6]) for n in names]
    heads: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule, "scale": 0.3}
    attention = node("LinearAttention", names, ["o", "last"], **heads)
    outputs = [info("o", F, ["b", "t", 24]), info("last", F, ["b", 2, 8, 6])]
    made = helper.make_model(
        graph([attention], inputs, outputs), opset_imports=[helper.make_opsetid("", 27)], ir_version=11
    )
    reference = ReferenceEvaluator(made)
    net = glow.compile(made)
    for batch, length in ((3, 5), (5, 9), (3, 40)):
        shapes = {"s": (batch, 2, 8, 6)} | {n: (batch, length, w) for n, w in widths.items()}
        feed = {n: -np.abs(RNG.standard_normal(shapes[n])).astype(np.float32) for n in names}
        wanted: list[Any] = list(reference.run(None, feed))
        for output, want in zip(net.outputs, wanted, strict=True):
            np.testing.assert_allclose(net.run(feed)[output.name], want, rtol=1e-4, atol=1e-5)
    assert net.report().notes["sizes"] == "any b, t"
