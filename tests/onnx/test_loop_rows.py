"""What turns of loops take and give row by row, against onnxruntime: inputs, results, lists, products."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from loop_models import B, F, I, cell, feeds, graph, info, model, node, one_program, same, weight
from onnx import helper

import glow_compiler as glow
from glow_backends.cpu.passes.cpu_turns import outline_turns
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.module import functions


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


@pytest.mark.slow
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


def test_products_of_rows() -> None:
    """Products of two rows stay in their turns; rows of lower rank stand beside products that do not."""
    body = graph(
        [
            node("MatMul", ["x", "y"], ["xy"]),
            node("MatMul", ["x", "w"], ["p"]),
            node("Add", ["p", "z"], ["q"]),
            node("Add", ["xy", "q"], ["s"]),
            node("Add", ["s", "h"], ["sum"]),
            node("Tanh", ["sum"], ["h1"]),
            node("MatMul", ["h1", "y"], ["out"]),
        ],
        [info("h", F, [3, 3]), info("x", F, [3, 3]), info("y", F, [3, 3]), info("z", F, [3])],
        [info("h1", F, [3, 3]), info("out", F, [3, 3])],
    )
    scan = node("Scan", ["h0", "xs", "ys", "zs"], ["last", "outs"], body=body, num_scan_inputs=3)
    inputs = [
        info("h0", F, [3, 3]),
        *(info(n, F, ["n", 3, 3]) for n in ("xs", "ys")),
        info("zs", F, ["n", 3]),
    ]
    one_program(
        model(graph([scan], inputs, [info("last", F, [3, 3]), info("outs", F, ["n", 3, 3])], w=weight(3, 3)))
    )


def rows_of_state(*nodes: Any) -> onnx.ModelProto:
    """A Loop that writes row by row into state of as many rows, and sums what `nodes` make, `seen`."""
    body = graph(
        [
            node("Gather", ["xs", "i"], ["x"], axis=0),
            node("Exp", ["x"], ["row"]),
            *nodes,
            node("Unsqueeze", ["i", "axes"], ["place1"]),
            node("Unsqueeze", ["place1", "axes"], ["place"]),
            node("Unsqueeze", ["row", "axes"], ["rows"]),
            node("ScatterND", ["memory", "place", "rows"], ["memory1"]),
            node("Add", ["total", "seen"], ["total1"]),
            node("Identity", ["go"], ["go2"]),
        ],
        [info("i", I, []), info("go", B, []), info("memory", F, None), info("total", F, [3])],
        [info("go2", B, []), info("memory1", F, None), info("total1", F, [3])],
        axes=np.array([0], np.int64),
    )
    outer = [
        node("Shape", ["xs"], ["shape"]),
        node("Gather", ["shape", "zero"], ["turns"], axis=0),
        node("Neg", ["xs"], ["first"]),
        node("Loop", ["turns", "true", "first", "t0"], ["last", "sum"], body=body),
    ]
    outputs = [info("last", F, ["n", 3]), info("sum", F, [3])]
    weights: dict[str, Any] = {"zero": np.int64(0), "true": np.array(True)}
    return model(graph(outer, [info("xs", F, ["n", 3]), info("t0", F, [3])], outputs, **weights))


def test_rows_of_state() -> None:
    """State that turns write row by row is a stack, unless they read it, too."""
    one_program(rows_of_state(node("Neg", ["row"], ["seen"])))
    one_program(rows_of_state(node("ReduceSum", ["memory", "axes"], ["seen"], keepdims=0)))


def test_rows_of_another_length() -> None:
    """Rows that a turn gathers of what is longer, or too short, which is an error."""
    body = cell("y")
    nodes = [
        node("Shape", ["few"], ["shape"]),
        node("Gather", ["shape", "zero"], ["turns"], axis=0),
        node("Loop", ["turns", "true", "h0"], ["last", "ys"], body=body),
    ]
    inputs = [info("h0", F, [2, 5]), info("few", F, ["n"]), info("xs", F, ["m", 2, 5])]
    outputs = [info("last", F, [2, 5]), info("ys", F, [None, 2, 5])]
    weights = {"w": weight(5, 5), "u": weight(5, 5), "zero": np.int64(0), "true": np.array(True)}
    sizes = [{"n": n, "m": m} for n, m in ((7, 9), (9, 12), (11, 40))]
    made = model(graph(nodes, inputs, outputs, **weights))
    net = one_program(made, sizes)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(glow.GlowError, match="index"):
        net.run(feeds(session, {"n": 13, "m": 11}))


def test_sequence_that_is_read() -> None:
    """A list that turns read is none of rows: every length has a program, and the same results."""
    lists = [helper.make_tensor_sequence_value_info(n, F, None) for n in ("list", "list2")]
    body = graph(
        [
            node("Gather", ["xs", "i"], ["x"], axis=0),
            node("Add", ["x", "h"], ["s"]),
            node("SequenceInsert", ["list", "s"], ["list2"]),
            node("SequenceAt", ["list2", "zero"], ["first"]),
            node("Mul", ["first", "s"], ["h1"]),
            node("Identity", ["go"], ["go2"]),
        ],
        [info("i", I, []), info("go", B, []), info("h", F, [3]), lists[0]],
        [info("go2", B, []), info("h1", F, [3]), lists[1]],
    )
    nodes = [
        node("Shape", ["xs"], ["shape"]),
        node("Gather", ["shape", "zero"], ["turns"], axis=0),
        node("SequenceEmpty", [], ["empty"]),
        node("Loop", ["turns", "true", "h0", "empty"], ["last", "made"], body=body),
        node("ConcatFromSequence", ["made"], ["stacked"], axis=0, new_axis=1),
    ]
    outputs = [info("last", F, [3]), info("stacked", F, [None, 3])]
    weights = {"zero": np.int64(0), "true": np.array(True)}
    made = model(graph(nodes, [info("h0", F, [3]), info("xs", F, ["n", 3])], outputs, **weights))
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(made)
    for n in (4, 7):
        same(net, session, feeds(session, {"n": n}))
    assert "a sequence that a loop changes" in str(net.report().notes["sizes"])
