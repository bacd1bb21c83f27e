"""Small networks of twenty architectures with random weights, as ONNX models to be quantised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """A model under construction: methods append a layer with random weights and return its result's name."""

    def __init__(self, *shape: int, kind: int = TensorProto.FLOAT) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.input = helper.make_tensor_value_info("x", kind, shape)

    def op(self, name: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node; the name of its first result."""
        names = [f"{name.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(name, inputs, names, f"{name}_{len(self.nodes)}", **attributes))
        return names[0]

    def constant(self, array: Any) -> str:
        """An initializer."""
        name = f"w_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape: int, fan: int = 1) -> str:
        """Random weights, scaled for `fan` terms of a sum."""
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def dense(self, x: str, inner: int, outer: int, act: str = "") -> str:
        """x @ w + b, an activation."""
        y = self.op("Add", self.op("MatMul", x, self.random(inner, outer, fan=inner)), self.random(outer))
        return self.op(act, y) if act else y

    def conv(
        self,
        x: str,
        inner: int,
        outer: int,
        k: int = 3,
        s: int = 1,
        g: int = 1,
        act: str = "Relu",
        **more: Any,
    ) -> str:
        """A convolution whose result has the input's size over the stride, an activation."""
        axes = more.pop("axes", 2)
        w = self.random(outer, inner // g, *[k] * axes, fan=inner // g * k**axes)
        pad = more.get("dilations", [1])[0] * (k - 1) // 2
        y = self.op(
            "Conv", x, w, self.random(outer), strides=[s] * axes, pads=[pad] * 2 * axes, group=g, **more
        )
        return self.op(act, y) if act else y

    def recurrent(self, kind: str, x: str, inner: int, hidden: int, both: bool = False) -> str:
        """Every state of an LSTM or GRU, directions side by side: [T, N, I] -> [T, N, D H]."""
        gates, d = {"LSTM": 4, "GRU": 3}[kind] * hidden, 1 + both
        parts = self.random(d, gates, inner, fan=inner), self.random(d, gates, hidden, fan=hidden)
        way = "bidirectional" if both else "forward"
        y = self.op(kind, x, *parts, self.random(d, 2 * gates), hidden_size=hidden, direction=way)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        return self.op("Reshape", y, self.constant(np.array([0, 0, -1], np.int64)))

    def norm(self, x: str, width: int) -> str:
        """LayerNormalization."""
        return self.op("LayerNormalization", x, self.random(width), self.random(width))

    def attention(self, x: str, length: int, width: int, heads: int) -> str:
        """A block of a transformer on [N, length, width]."""

        def split(y: str, perm: list[int]) -> str:
            dims = self.constant(np.array([-1, length, heads, width // heads], np.int64))
            return self.op("Transpose", self.op("Reshape", y, dims), perm=perm)

        h = self.norm(x, width)
        q, k, v = (
            split(self.dense(h, width, width), perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scale = self.constant(np.float32(1 / np.sqrt(width // heads)))
        scores = self.op("Softmax", self.op("Mul", self.op("MatMul", q, k), scale), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        mixed = self.op("Reshape", mixed, self.constant(np.array([-1, length, width], np.int64)))
        x = self.op("Add", x, self.dense(mixed, width, width))
        return self.op("Add", x, self.mlp(self.norm(x, width), width, 4 * width))

    def mlp(self, x: str, width: int, inner: int) -> str:
        """Two layers with a relu between them."""
        return self.dense(self.dense(x, width, inner, "Relu"), inner, width)

    def head(self, x: str, channels: int, classes: int = 10) -> str:
        """Global average and a dense layer."""
        return self.dense(self.op("Flatten", self.op("GlobalAveragePool", x)), channels, classes)

    def pool(self, x: str) -> str:
        """Maxima of 2 x 2."""
        return self.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def model(self, y: str) -> ModelProto:
        """The model whose output is `y`."""
        output = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [self.input], [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def _mlp(rows: int) -> ModelProto:
    n = Net(rows, 256)
    return n.model(n.dense(n.dense(n.dense("x", 256, 512, "Relu"), 512, 512, "Relu"), 512, 10))


def _autoencoder() -> ModelProto:
    n, x = Net(8, 784), "x"
    for inner, outer in ((784, 128), (128, 32), (32, 128)):
        x = n.dense(x, inner, outer, "Relu")
    return n.model(n.op("Sigmoid", n.dense(x, 128, 784)))


def _lenet() -> ModelProto:
    n = Net(1, 1, 28, 28)
    x = n.pool(n.conv(n.pool(n.conv("x", 1, 8, 5)), 8, 16, 5))
    return n.model(n.dense(n.dense(n.op("Flatten", x), 784, 120, "Relu"), 120, 10))


def _vgg() -> ModelProto:
    n, x, inner = Net(1, 3, 64, 64), "x", 3
    for outer in (32, 64, 128):
        x = n.pool(n.conv(n.conv(x, inner, outer), outer, outer))
        inner = outer
    return n.model(n.head(x, inner))


def _resnet() -> ModelProto:
    n = Net(1, 3, 64, 64)
    x = n.conv("x", 3, 32, 7, 2)
    for inner, outer, s in ((32, 32, 1), (32, 64, 2), (64, 128, 2)):
        way = n.conv(n.conv(x, inner, outer, 3, s), outer, outer, act="")
        x = n.op("Relu", n.op("Add", way, x if s == 1 else n.conv(x, inner, outer, 1, s, act="")))
    return n.model(n.head(x, 128))


def _mobilenet() -> ModelProto:
    n = Net(1, 3, 96, 96)
    x = n.conv("x", 3, 16, 3, 2)
    for inner, outer, s in ((16, 32, 1), (32, 64, 2), (64, 128, 2), (128, 128, 1)):
        x = n.conv(n.conv(x, inner, inner, 3, s, g=inner), inner, outer, 1)
    return n.model(n.head(x, 128))


def _inverted() -> ModelProto:
    n = Net(1, 3, 96, 96)
    x = n.conv("x", 3, 16, 3, 2, act="HardSwish")
    for _ in range(3):
        h = n.conv(n.conv(x, 16, 64, 1, act="HardSwish"), 64, 64, 5, g=64, act="HardSwish")
        x = n.op("Add", x, n.conv(h, 64, 16, 1, act=""))
    return n.model(n.head(x, 16))


def _squeeze_excite() -> ModelProto:
    n = Net(1, 3, 64, 64)
    x = n.conv("x", 3, 32, 3, 2)
    for _ in range(2):
        h = n.conv(x, 32, 32)
        gate = n.conv(n.conv(n.op("GlobalAveragePool", h), 32, 8, 1), 8, 32, 1, act="Sigmoid")
        x = n.op("Add", x, n.op("Mul", h, gate))
    return n.model(n.head(x, 32))


def _groups() -> ModelProto:
    n = Net(1, 3, 64, 64)
    x = n.conv("x", 3, 64, 3, 2)
    for _ in range(2):
        x = n.op("Add", x, n.conv(n.conv(n.conv(x, 64, 64, 1), 64, 64, 3, g=8), 64, 64, 1, act=""))
    return n.model(n.head(x, 64))


def _fire() -> ModelProto:
    n = Net(1, 3, 64, 64)
    x = n.pool(n.conv("x", 3, 64, 3, 2))
    for inner in (64, 128):
        h = n.conv(x, inner, 16, 1)
        x = n.op("Concat", n.conv(h, 16, 64, 1), n.conv(h, 16, 64, 3), axis=1)
    return n.model(n.head(x, 128))


def _unet() -> ModelProto:
    n = Net(1, 3, 64, 64)
    first = n.conv("x", 3, 16)
    second = n.conv(n.pool(first), 16, 32)
    up = n.op("ConvTranspose", second, n.random(32, 16, 2, 2, fan=32), n.random(16), strides=[2, 2])
    x = n.conv(n.op("Concat", first, up, axis=1), 32, 16)
    return n.model(n.conv(x, 16, 4, 1, act="Sigmoid"))


def _audio() -> ModelProto:
    n, x, inner = Net(1, 1, 4000), "x", 1
    for outer, k, s in ((32, 9, 4), (64, 9, 4), (64, 5, 2)):
        x = n.conv(x, inner, outer, k, s, axes=1)
        inner = outer
    return n.model(n.head(x, 64))


def _temporal() -> ModelProto:
    n, x = Net(1, 32, 256), "x"
    for d in (1, 2, 4, 8):
        x = n.op("Add", x, n.conv(x, 32, 32, 3, axes=1, dilations=[d]))
    return n.model(n.head(x, 32))


def _recurrent(kind: str, both: bool, layers: int) -> ModelProto:
    n, x, inner = Net(50, 1, 64), "x", 64
    for _ in range(layers):
        x, inner = n.recurrent(kind, x, inner, 128, both), 128 * (1 + both)
    return n.model(n.dense(x, inner, 10))


def _crnn() -> ModelProto:
    n = Net(1, 1, 32, 128)
    x = n.pool(n.conv(n.pool(n.conv("x", 1, 16)), 16, 32))
    x = n.op("Transpose", x, perm=[3, 0, 1, 2])
    x = n.op("Reshape", x, n.constant(np.array([0, 0, -1], np.int64)))
    return n.model(n.dense(n.recurrent("LSTM", x, 256, 96, True), 192, 40))


def _encoder(length: int, width: int, layers: int) -> ModelProto:
    n, x = Net(1, length, width), "x"
    for _ in range(layers):
        x = n.attention(x, length, width, 4)
    return n.model(n.dense(x, width, 32))


def _patches() -> ModelProto:
    n = Net(1, 3, 64, 64)
    x = n.op("Conv", "x", n.random(96, 3, 8, 8, fan=192), n.random(96), strides=[8, 8])
    x = n.op("Transpose", n.op("Reshape", x, n.constant(np.array([1, 96, 64], np.int64))), perm=[0, 2, 1])
    x = n.attention(n.op("Add", x, n.random(1, 64, 96)), 64, 96, 3)
    return n.model(n.dense(n.op("ReduceMean", x, axes=[1], keepdims=0), 96, 10))


def _text() -> ModelProto:
    n = Net(1, 32, kind=TensorProto.INT64)
    x = n.attention(n.op("Gather", n.random(1000, 64), "x"), 32, 64, 2)
    return n.model(n.dense(n.op("ReduceMean", x, axes=[1], keepdims=0), 64, 4))


NETWORKS: dict[str, Callable[[], ModelProto]] = {
    "mlp, 1 row": lambda: _mlp(1),
    "mlp, 32 rows": lambda: _mlp(32),
    "autoencoder": _autoencoder,
    "lenet": _lenet,
    "vgg": _vgg,
    "resnet": _resnet,
    "mobilenet": _mobilenet,
    "inverted bottlenecks": _inverted,
    "squeeze and excite": _squeeze_excite,
    "groups": _groups,
    "fire": _fire,
    "unet": _unet,
    "audio": _audio,
    "temporal": _temporal,
    "lstm": lambda: _recurrent("LSTM", False, 2),
    "bilstm": lambda: _recurrent("LSTM", True, 1),
    "gru": lambda: _recurrent("GRU", False, 2),
    "crnn": _crnn,
    "encoder": lambda: _encoder(64, 128, 2),
    "patches": _patches,
    "text": _text,
}
"""Name -> what builds the float model; one input x."""


def feeds(model: ModelProto, count: int, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """Random inputs for a model of NETWORKS."""
    rng = np.random.default_rng(seed)
    kind = model.graph.input[0].type.tensor_type
    shape = [d.dim_value for d in kind.shape.dim]
    if kind.elem_type == TensorProto.INT64:
        return [{"x": rng.integers(0, 1000, shape)} for _ in range(count)]
    return [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(count)]
