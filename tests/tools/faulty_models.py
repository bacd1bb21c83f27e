"""A network of many operators for tests that put faults into the compiler."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_tools.reduce_onnx import OnnxCase


def network() -> OnnxCase:
    """Convolutions, pools, arithmetic, moves of data, products, normalisations: 39 nodes."""
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}

    def weight(*shape: int, low: float = -0.5) -> str:
        name = f"w{len(weights)}"
        weights[name] = rng.uniform(low, 0.5, shape).astype(np.float32)
        return name

    def whole(*numbers: int) -> str:
        name = f"w{len(weights)}"
        weights[name] = np.array(numbers, np.int64)
        return name

    def scalar(number: float) -> str:
        name = f"w{len(weights)}"
        weights[name] = np.array(number, np.float32)
        return name

    nodes: list[onnx.NodeProto] = []

    def add(op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], f"node/{name}", **attributes))
        return name

    h = add("Conv", "x", weight(8, 3, 3, 3), pads=[1, 1, 1, 1])
    statistics = [weight(8), weight(8), weight(8), weight(8, low=0.1)]
    h = add("Relu", add("BatchNormalization", h, *statistics))
    h = add("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    side = add("Conv", h, weight(8, 1, 3, 3), weight(8), pads=[1, 1, 1, 1], group=8)
    h = add("Add", h, add("Sigmoid", side))
    h = add("AveragePool", h, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    mean = add("ReduceMean", h, whole(2, 3), keepdims=1)
    h = add("Mul", add("Sub", h, mean), weight(1, 8, 1, 1))
    h = add("Clip", h, scalar(-0.4), scalar(0.4))
    h = add("Pad", h, whole(0, 0, 1, 0, 0, 0, 0, 1))
    h = add("Slice", h, whole(0), whole(4), whole(2))
    h = add("Concat", h, add("Neg", h), axis=1)
    h = add("Reshape", add("Transpose", h, perm=[0, 2, 3, 1]), whole(1, -1, 16))
    h = add("LayerNormalization", h, weight(16), weight(16), axis=-1)
    q, k, v = (add("Add", add("MatMul", h, weight(16, 16)), weight(16)) for _ in range(3))
    scores = add("Div", add("MatMul", q, add("Transpose", k, perm=[0, 2, 1])), scalar(0.5))
    h = add("Add", h, add("MatMul", add("Softmax", scores, axis=-1), v))
    h = add("Tanh", add("MatMul", h, weight(16, 12)))
    h = add("Gemm", add("Flatten", add("ReduceMax", h, whole(1), keepdims=0)), weight(12, 10), weight(10))
    add("Exp", add("Neg", add("Abs", h)))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return OnnxCase(model, {"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)})
