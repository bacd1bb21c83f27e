"""Loops of as many turns as an input is long, against onnxruntime: one program for every length."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from loop_models import RNG, F, cell, feeds, graph, info, layer, model, node, one_program, same, weight
from onnx import helper
from onnx.reference import ReferenceEvaluator

import glow_compiler as glow


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


@pytest.mark.slow
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
    assert "Loop 'search': how many rows it stacks" in str(net.report().notes["sizes"])


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


def test_state_of_calls() -> None:
    """What the loop leaves is its state in the next call, in place."""
    made = layer()
    net, plain = glow.compile(made, states={"last": "h0"}), glow.compile(made)
    state = np.zeros((1, 6), np.float32)
    for n in (5, 9, 12, 30):
        xs = weight(n, 1, 5)
        wanted = plain.run({"h0": state, "xs": xs})
        state = wanted["last"]
        np.testing.assert_allclose(net.run({"xs": xs})["ys"], wanted["ys"], rtol=1e-4, atol=2e-5)
    assert net.report().notes["sizes"] == "any n"


@pytest.mark.parametrize("level", ["lines", "full"])
def test_lines(level: str) -> None:
    """Debuggers are told of the program around the turns."""
    one_program(layer(), [{"n": n} for n in (7, 12)], debug_info=level)
