"""Random networks whose conversions limit values, as quantisers leave them, against onnxruntime."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow

GRAPHS = 8
LENGTH = 6
#: (smallest, largest) real number of a range: relu, relu6, a negative one, a narrow one, two wide ones.
RANGES = ((0.0, 1.5), (0.0, 0.6), (-0.8, 0.0), (-0.3, 0.4), (-4.0, 4.0), (-3.0, 5.0))


class Net:
    """A network under construction; values have 4 x 6 x 6 elements."""

    def __init__(self, seed: int) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values = ["x"]
        self.steps: list[float] = []

    def constant(self, array: np.ndarray) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        """A node of one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def stored(self, value: str) -> str:
        """`value` through 8 bits of a random range."""
        low, high = self.rng.choice(RANGES)
        kind = self.rng.choice([np.uint8, np.int8])
        scale = np.float32((high - low) / 255)
        zero = np.rint(-low / scale) + np.iinfo(kind).min
        parameters = [self.constant(scale), self.constant(np.array(zero, kind))]
        self.steps.append(float(scale))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", value, *parameters), *parameters)

    def layer(self, value: str) -> str:
        """An operator on stored values."""
        match self.rng.choice(["conv", "conv", "add", "pool", "turn", "again", "relu"]):
            case "conv":
                scale = self.constant(self.numbers.uniform(0.0005, 0.0015, 4).astype(np.float32))
                stored = self.constant(self.numbers.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8))
                zero = self.constant(np.zeros(4, np.int8))
                weights = self.add("DequantizeLinear", stored, scale, zero, axis=0)
                return self.add("Conv", value, weights, pads=[1, 1, 1, 1])
            case "add":
                return self.add(self.rng.choice(["Add", "Sub", "Mul"]), value, self.rng.choice(self.values))
            case "pool":
                kind = self.rng.choice(["MaxPool", "AveragePool"])
                return self.add(kind, value, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            case "turn":
                return self.add("Transpose", value, perm=[0, 1, 3, 2])
            case "relu":
                return self.add("Relu", value)
            case _:
                return value

    def model(self) -> onnx.ModelProto:
        """Layers, most of them with stored results; real numbers leave it."""
        for _ in range(LENGTH):
            made = self.layer(self.rng.choice(self.values[-2:]))
            self.values.append(self.stored(made) if self.rng.random() < 0.8 else made)
        outputs = [v for v in self.values[-3:] if v != "x"]
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 6, 6]) for n in ["x", *outputs]]
        graph = helper.make_graph(self.nodes, "ranges", infos[:1], infos[1:], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_ranges_limit_values(seed: int, backend: str) -> None:
    """A few steps of rounding, and no value beyond a range."""
    net = Net(seed)
    model = net.model()
    x = net.numbers.uniform(-2, 2, (1, 4, 6, 6)).astype(np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})
    made = glow.compile(model, backend=backend).run({"x": x})
    for info, want in zip(model.graph.output, wanted, strict=True):
        allowed = 3 * max(net.steps, default=0.0) + 1e-4
        assert float(np.abs(made[info.name] - np.asarray(want)).max()) <= allowed, info.name


@pytest.mark.parametrize("scales", [(0.047, 0.083), (0.031, 0.113, 0.071)])
@pytest.mark.parametrize("first", ["x", "Conv"])
def test_each_conversion_of_a_model_rounds(first: str, scales: tuple[float, ...]) -> None:
    """Bytes that are converted to bytes of another scale are rounded again, as onnxruntime does."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((4, 4, 3, 3)) / 4, "zero": np.array(3, np.uint8)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["v"])] if first == "Conv" else []
    value = "v" if nodes else "x"
    for i, scale in enumerate(scales):
        constants[f"s{i}"] = np.float32(scale)
        nodes.append(helper.make_node("QuantizeLinear", [value, f"s{i}", "zero"], [f"q{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{i}", f"s{i}", "zero"], [f"d{i}"]))
        value = f"d{i}"
    initializers = [
        numpy_helper.from_array(np.asarray(a if a.dtype == np.uint8 else a.astype(np.float32)), n)
        for n, a in constants.items()
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (value,)]
    x = rng.standard_normal((2, 4, 9, 9)).astype(np.float32)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph(nodes, "g", inputs, infos, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]
    for backend in ("cpu", "interpreter"):
        got = glow.compile(model, backend=backend).run({"x": x})[value]
        np.testing.assert_allclose(got, want, atol=1e-6)
