"""Activations of quantised models, several operators each, as onnxruntime computes them."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_passes.pipeline import PassRunner, match_integers

Step = tuple[str, tuple[str, ...]]

#: Operators from the values "x" and constants on; the results of all are rounded to bytes.
FUNCTIONS: dict[str, list[Step]] = {
    "silu": [("Sigmoid", ("x",)), ("Mul", ("x", "1"))],
    "gelu": [
        ("Div", ("x", "root")),
        ("Erf", ("1",)),
        ("Add", ("2", "one")),
        ("Mul", ("x", "3")),
        ("Mul", ("4", "half")),
    ],
    "hard_swish": [("HardSigmoid", ("x",)), ("Mul", ("x", "1"))],
    "mish": [("Softplus", ("x",)), ("Tanh", ("1",)), ("Mul", ("2", "x"))],
    "square": [("Mul", ("x", "x")), ("Add", ("1", "x")), ("Sub", ("2", "half"))],
}
CONSTANTS = {"root": 2**0.5, "one": 1.0, "half": 0.5}


def _quantized(name: str, kind: type, constant: Callable[[str, Array], str]) -> onnx.ModelProto:
    """The function with quantize and dequantize after each step, and scales that differ."""
    zero = constant("zero", np.array(3 if kind is np.int8 else 130, kind))
    nodes: list[onnx.NodeProto] = []
    values: dict[str, str] = {key: constant(key, np.array(v, np.float32)) for key, v in CONSTANTS.items()}

    def rounded(value: str, key: str) -> None:
        scale = constant(f"{key}.scale", np.array(0.02 + 0.01 * len(nodes), np.float32))
        nodes.append(helper.make_node("QuantizeLinear", [value, scale, zero], [f"{key}.q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{key}.q", scale, zero], [f"{key}.dq"]))
        values[key] = f"{key}.dq"

    rounded("input", "x")
    for number, (op, reads) in enumerate(FUNCTIONS[name], 1):
        nodes.append(helper.make_node(op, [values[key] for key in reads], [f"{number}.real"]))
        rounded(f"{number}.real", str(number))
    shape = (2, 7, 33)
    given = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info(values[str(len(FUNCTIONS[name]))], TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [given], [made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_bytes_are_tables(name: str, kind: type) -> None:
    """One lookup; results are onnxruntime's, but for a rounding step where a value lies on the border."""
    arrays: dict[str, Array] = {}

    def constant(key: str, array: Array) -> str:
        arrays[key] = array
        return key

    m = _quantized(name, kind, constant)
    m.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in arrays.items())
    onnx.checker.check_model(m)
    module = glow.load(m).clone()
    PassRunner(context()).run(module, match_integers())
    operators = {op.name for op in module.walk()}
    assert "glow.lookup" in operators and not operators & {"glow.mul", "glow.quantized_mul"}

    x = np.random.default_rng(0).normal(0, 2.5, (2, 7, 33)).astype(np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    want: Any = session.run(None, {"input": x})[0]
    have = [
        next(iter(glow.compile(m, backend=backend).run({"input": x}).values()))
        for backend in ("interpreter", "cpu")
    ]
    np.testing.assert_array_equal(have[0], have[1])
    step = float(np.diff(np.unique(want)).min())
    assert np.abs(want - have[0]).max() < 1.01 * step
    assert np.mean(want != have[0]) < 0.02


def test_fill_that_was_quantised() -> None:
    """onnxruntime's quantiser writes the fill of a Pad as a byte, its scale and zero point: it is known."""
    known = {"s": np.float32(0.02), "z": np.uint8(130), "q": np.uint8(140), "p": np.array([0, 0, 1, 1])}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["fill"]),
        helper.make_node("Pad", ["xd", "p", "fill"], ["w"]),
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["wq"]),
        helper.make_node("DequantizeLinear", ["wq", "s", "z"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (2, 3)), ("y", (3, 4)))
    ]
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in known.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for backend in ("cpu", "interpreter"):
        net = glow.compile(model, backend=backend)
        np.testing.assert_allclose(
            net.run({"x": x})["y"], np.asarray(session.run(None, {"x": x})[0]), atol=1e-6
        )
        assert not net.report().notes.get("host")


INPUTS = ("k", "v", "sum", "weight", "top")


def _weighted_sums(steps: int) -> onnx.ModelProto:
    """The recurrence of RWKV, unrolled: weighted sums of past values; every value is rounded to bytes."""
    nodes: list[onnx.NodeProto] = []

    def rounded(value: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [value, "scale", "zero"], [f"{value}.q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{value}.q", "scale", "zero"], [f"{value}.dq"]))
        return f"{value}.dq"

    def make(op: str, *reads: str) -> str:
        nodes.append(helper.make_node(op, reads, [f"{len(nodes)}"]))
        return rounded(nodes[-1].output[0])

    k, v, total, weight, top = [rounded(name) for name in INPUTS]
    for _ in range(steps):
        key = make("Mul", k, "decay")
        most = make("Max", top, key)
        old, new = make("Exp", make("Sub", top, most)), make("Exp", make("Sub", key, most))
        total = make("Add", make("Mul", old, total), make("Mul", new, v))
        weight = make("Add", make("Mul", old, weight), new)
        k, v, top = make("Add", k, total), make("Mul", v, weight), make("Add", most, key)
    known = {"scale": np.float32(0.02), "zero": np.int8(0), "decay": np.float32(0.5)}
    weights = [numpy_helper.from_array(np.asarray(array), key) for key, array in known.items()]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 16)) for name in (*INPUTS, v)]
    graph = helper.make_graph(nodes, "g", infos[:-1], infos[-1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _calls(model: onnx.ModelProto) -> int:
    """How many calls of functions it takes to make integer operators of a model."""
    module = glow.load(model).clone()
    profile = cProfile.Profile()
    profile.runcall(PassRunner(context()).run, module, match_integers())
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_work_grows_as_the_model_does() -> None:
    """Where no byte alone decides, the search for one costs the same at every operator."""
    short, long = _calls(_weighted_sums(10)), _calls(_weighted_sums(20))
    assert long < 2.5 * short


def test_recurrence_of_bytes_is_exact() -> None:
    """Values that several bytes decide about stay integer operators, which compute what onnxruntime does."""
    model = _weighted_sums(4)
    onnx.checker.check_model(model)
    r = np.random.default_rng(0)
    feeds = {name: r.normal(0, 1, (1, 16)).astype(np.float32) for name in INPUTS}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    want: Any = session.run(None, feeds)[0]
    for backend in ("cpu", "interpreter"):
        have = next(iter(glow.compile(model, backend=backend).run(feeds).values()))
        assert np.abs(have - want).max() < 0.021 and np.mean(have != want) < 0.1
