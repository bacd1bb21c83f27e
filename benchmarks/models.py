"""The models of the benchmarks: the onnx package's light models with real weights, and small networks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
SMALL = ("mlp", "convolutions", "lstm", "attention")


def _save(model: onnx.ModelProto, path: Path) -> None:
    """Write a file that looks a minute old, as a user's would: a newer one is read whole each time."""
    onnx.save(model, path)
    before = time.time() - 60
    os.utime(path, (before, before))


def light(name: str, batch: int, folder: Path) -> Path:
    """A light model of the onnx package with random weights in place of its constant fills.

    The fills make every weight of a layer equal, which no network has. Weights have the variance that
    keeps activations of order one. `batch` replaces the first dimension.
    """
    path = folder / f"{name}_b{batch}.onnx"
    if path.exists():
        return path
    source = Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx"
    model = onnx.load(source)
    graph = model.graph
    known = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    filled = {n.output[0]: [int(d) for d in known[n.input[0]]] for n in graph.node if _is_fill(n)}
    nodes = [node for node in graph.node if not _is_fill(node)]
    for node in nodes:
        constant = node.input and (node.input[0] in known or node.input[0] in filled)
        if batch != 1 and node.op_type == "Reshape" and node.input[1] in known and not constant:
            shape = known[node.input[1]].copy()
            shape[0] = batch
            known[node.input[1]] = shape
    used = {name for node in nodes for name in node.input}
    inputs = [i for i in graph.input if i.name not in known]
    for value in (*inputs, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    tensors = [numpy_helper.from_array(a, n) for n, a in known.items() if n in used]
    changed = helper.make_graph(nodes, graph.name, inputs, graph.output, tensors)
    made = helper.make_model(changed, opset_imports=model.opset_import, ir_version=8)
    rng = np.random.default_rng(0)
    for name, shape in filled.items():  # copied once: there are hundreds of megabytes
        weight = made.graph.initializer.add(name=name, dims=shape, data_type=TensorProto.FLOAT)
        weight.raw_data = _weights(rng, shape).tobytes()
    _save(made, path)
    return path


def _is_fill(node: onnx.NodeProto) -> bool:
    return node.op_type == "ConstantOfShape"


def _weights(rng: np.random.Generator, shape: list[int]) -> np.ndarray:
    """He's initialisation for matrices and filters, values around one for scales and biases."""
    drawn = rng.standard_normal(shape, np.float32)
    if len(shape) < 2:
        return np.float32(0.9) + np.float32(0.1) * np.abs(drawn)
    drawn *= np.sqrt(2 / np.prod(shape[1:]))
    return drawn


def small(name: str, folder: Path) -> Path:
    """A network that takes some microseconds: calls and short loops are what costs."""
    path = folder / f"small_{name}.onnx"
    rng = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []

    def weight(*shape: int) -> str:
        array = rng.standard_normal(shape) / np.sqrt(shape[-1])
        weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    node = helper.make_node
    if name == "mlp":
        shape, result = [1, 64], [1, 10]
        nodes = [
            node("Gemm", ["x", weight(64, 128), weight(128)], ["a"]),
            node("Relu", ["a"], ["b"]),
            node("Gemm", ["b", weight(128, 10), weight(10)], ["c"]),
            node("Softmax", ["c"], ["y"]),
        ]
    elif name == "convolutions":
        shape, result = [1, 1, 28, 28], [1, 16, 7, 7]
        nodes = [
            node("Conv", ["x", weight(8, 1, 3, 3), weight(8)], ["a"], pads=[1] * 4),
            node("Relu", ["a"], ["b"]),
            node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["c", weight(16, 8, 3, 3), weight(16)], ["d"], pads=[1] * 4),
            node("Relu", ["d"], ["e"]),
            node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
    elif name == "lstm":
        shape, result = [8, 1, 16], [8, 1, 1, 32]
        operands = ["x", weight(1, 128, 16), weight(1, 128, 32), weight(1, 256)]
        nodes = [node("LSTM", operands, ["y"], hidden_size=32)]
    else:
        shape, result = [1, 16, 32], [1, 16, 32]
        nodes = [
            node("MatMul", ["x", weight(32, 32)], ["q"]),
            node("MatMul", ["x", weight(32, 32)], ["k"]),
            node("MatMul", ["x", weight(32, 32)], ["v"]),
            node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
            node("MatMul", ["q", "t"], ["s"]),
            node("Softmax", ["s"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["y"]),
        ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", result))]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights)
    _save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path
