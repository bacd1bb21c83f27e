"""Random graphs of many operators: rewrites, fusion and shared buffers come together in them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
LENGTH = 14


class Graph:
    """A graph under construction: values with their shapes, all float32."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, Shape] = {}
        self.feed: dict[str, np.ndarray] = {}
        for _ in range(self.rng.randint(1, 2)):
            shape = self.rng.choice([(2, 4, 6, 6), (1, 8, 5, 7), (3, 4, 8), (4, 10), (2, 3, 4, 5)])
            name = f"in{len(self.feed)}"
            self.feed[name] = self.numbers.uniform(-1, 1, shape).astype(np.float32)
            self.values[name] = shape

    def pick(self, rank: int | None = None) -> str | None:
        """A value, of a rank where asked; recent ones more often."""
        fits = [n for n, s in self.values.items() if rank is None or len(s) == rank]
        return self.rng.choice(fits[-5:]) if fits else None

    def constant(self, array: np.ndarray) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int) -> str:
        """Random weights."""
        return self.constant(self.numbers.uniform(-0.5, 0.5, shape).astype(np.float32))

    def add(self, op: str, inputs: list[str], shape: Shape, **attributes: object) -> str:
        """A node of one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.values[name] = shape
        return name

    def model(self) -> onnx.ModelProto:
        """The model; values that nothing reads are the outputs."""
        used = {n for node in self.nodes for n in node.input}
        ends = [n for n in self.values if n not in used and n not in self.feed]
        inside = sorted(n for n in used if n in self.values and n not in self.feed)
        ends += self.rng.sample(inside, 1) if inside else []
        made = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in self.feed.items()],
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, self.values[n])
                for n in dict.fromkeys(ends)
            ],
            self.constants,
        )
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def unary(g: Graph, x: str) -> None:
    """A function of each element."""
    op = g.rng.choice(
        ["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Identity", "Erf", "Softplus", "HardSwish", "Floor"]
    )
    g.add(op, [x], g.values[x])


def clip(g: Graph, x: str) -> None:
    """Clip, as a relu6 or otherwise."""
    low, high = g.rng.choice([(0.0, 6.0), (-0.5, 0.5), (0.0, 1.0)])
    limits = [g.constant(np.array(v, np.float32)) for v in (low, high)]
    g.add("Clip", [x, *limits], g.values[x])


def scaled(g: Graph, x: str) -> None:
    """Arithmetic with a constant, on either side, of one value or one a place of an axis."""
    shape = g.values[x]
    other = (
        g.weights(*[d if g.rng.random() < 0.4 else 1 for d in shape]) if g.rng.random() < 0.7 else g.weights()
    )
    op = g.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
    g.add(op, [x, other] if g.rng.random() < 0.7 else [other, x], shape)


def paired(g: Graph, x: str) -> None:
    """Arithmetic of two values of one shape."""
    fits = [n for n, s in g.values.items() if s == g.values[x]]
    g.add(g.rng.choice(["Add", "Sub", "Mul", "Max"]), [x, g.rng.choice(fits)], g.values[x])


def centred(g: Graph, x: str) -> None:
    """A value less its mean: a reduction that broadcasts back."""
    shape = g.values[x]
    axis = g.rng.randrange(len(shape))
    kept = tuple(1 if i == axis else d for i, d in enumerate(shape))
    op = g.rng.choice(["ReduceMean", "ReduceMax", "ReduceSum"])
    mean = g.add(op, [x, g.constant(np.array([axis], np.int64))], kept, keepdims=1)
    g.add("Sub", [x, mean], shape)


def normalized(g: Graph, x: str) -> None:
    """Softmax along an axis, or a layer normalisation."""
    shape = g.values[x]
    if g.rng.random() < 0.5:
        g.add("Softmax", [x], shape, axis=g.rng.randrange(len(shape)))
    else:
        g.add("LayerNormalization", [x, g.weights(shape[-1]), g.weights(shape[-1])], shape, axis=-1)


def transposed(g: Graph, x: str) -> None:
    """Axes in another order."""
    shape = g.values[x]
    order = g.rng.sample(range(len(shape)), len(shape))
    g.add("Transpose", [x], tuple(shape[i] for i in order), perm=order)


def reshaped(g: Graph, x: str) -> None:
    """Two axes merged, by numbers or by what `Shape` tells of the others."""
    shape = g.values[x]
    axis = g.rng.randrange(len(shape) - 1)
    new = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    if g.rng.random() < 0.5:
        g.add("Reshape", [x, g.constant(np.array(new, np.int64))], new)
        return
    sizes = f"shape{len(g.nodes)}"
    g.nodes.append(helper.make_node("Shape", [x], [sizes]))
    parts = [g.constant(np.array([-1], np.int64)) if i == axis else f"{sizes}_{i}" for i in range(len(shape))]
    parts.pop(axis + 1)
    for i in range(len(shape)):
        if f"{sizes}_{i}" in parts:
            place = g.constant(np.array([i], np.int64))
            g.nodes.append(helper.make_node("Gather", [sizes, place], [f"{sizes}_{i}"]))
    g.nodes.append(helper.make_node("Concat", parts, [f"{sizes}_new"], axis=0))
    g.add("Reshape", [x, f"{sizes}_new"], new)


def cut(g: Graph, x: str) -> None:
    """Part of an axis, perhaps backwards."""
    shape = g.values[x]
    axis = g.rng.randrange(len(shape))
    start, step = (0, g.rng.choice([1, 2])) if g.rng.random() < 0.7 else (shape[axis] - 1, -1)
    end = max(1, shape[axis] - 1) if step > 0 else -shape[axis] - 1
    bounds = [g.constant(np.array([v], np.int64)) for v in (start, end, axis, step)]
    size = len(range(*slice(start, end, step).indices(shape[axis])))
    g.add("Slice", [x, *bounds], (*shape[:axis], size, *shape[axis + 1 :]))


def joined(g: Graph, x: str) -> None:
    """Two values one after another."""
    shape = g.values[x]
    axis = g.rng.randrange(len(shape))
    fits = [n for n, s in g.values.items() if s == shape]
    size = 2 * shape[axis]
    if size <= 24:
        g.add("Concat", [x, g.rng.choice(fits)], (*shape[:axis], size, *shape[axis + 1 :]), axis=axis)


def padded(g: Graph, x: str) -> None:
    """A border of zeros or of copies."""
    shape = g.values[x]
    pads = [g.rng.randint(0, 1) for _ in range(2 * len(shape))]
    new = tuple(d + pads[i] + pads[i + len(shape)] for i, d in enumerate(shape))
    mode = g.rng.choice(["constant", "edge"])
    g.add("Pad", [x, g.constant(np.array(pads, np.int64))], new, mode=mode)


def product(g: Graph, x: str) -> None:
    """A matrix product with weights, perhaps with a bias."""
    shape = g.values[x]
    width = g.rng.choice([3, 8, 16])
    y = g.add("MatMul", [x, g.weights(shape[-1], width)], (*shape[:-1], width))
    if g.rng.random() < 0.5:
        g.add("Add", [y, g.weights(width)], g.values[y])


def convolved(g: Graph, x: str) -> None:
    """A convolution, perhaps with batch normalisation and an activation; or a pool."""
    image = g.pick(4)
    if image is None or min(g.values[image][2:]) < 3:
        return unary(g, x)
    count, channels, height, width = g.values[image]
    if g.rng.random() < 0.3:
        op = g.rng.choice(["MaxPool", "AveragePool"])
        half = (count, channels, (height - 2) // 2 + 1, (width - 2) // 2 + 1)
        g.add(op, [image], half, kernel_shape=[2, 2], strides=[2, 2])
        return None
    depthwise = g.rng.random() < 0.3
    made = channels if depthwise else g.rng.choice([4, 8, 12])
    kernel = g.rng.choice([1, 3])
    weights = g.weights(made, 1 if depthwise else channels, kernel, kernel)
    y = g.add(
        "Conv",
        [image, weights, g.weights(made)][: g.rng.randint(2, 3)],
        (count, made, height, width),
        pads=[kernel // 2] * 4,
        group=channels if depthwise else 1,
    )
    if g.rng.random() < 0.5:
        scale = [g.weights(made) for _ in range(3)]
        variance = g.constant(g.numbers.uniform(0.5, 2, made).astype(np.float32))
        y = g.add("BatchNormalization", [y, *scale, variance], g.values[y])
    if g.rng.random() < 0.6:
        g.add("Relu", [y], g.values[y])
    return None


def attended(g: Graph, x: str) -> None:
    """A value weighted by how alike its rows are, perhaps without those behind a row."""
    shape = g.values[x]
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    turned = g.add("Transpose", [x], tuple(shape[i] for i in order), perm=order)
    square = (*shape[:-1], shape[-2])
    scores = g.add("MatMul", [x, turned], square)
    if g.rng.random() < 0.4:
        scores = g.add("Trilu", [scores], square, upper=0)
    g.add("MatMul", [g.add("Softmax", [scores], square, axis=-1), x], shape)


def resized(g: Graph, x: str) -> None:
    """An image of other sizes, or the transposed convolution that makes it larger."""
    image = g.pick(4)
    if image is None:
        return unary(g, x)
    count, channels, height, width = g.values[image]
    if g.rng.random() < 0.4:
        made = g.rng.choice([3, 8])
        weights = g.weights(channels, made, 2, 2)
        g.add("ConvTranspose", [image, weights], (count, made, 2 * height, 2 * width), strides=[2, 2])
        return None
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    mode = g.rng.choice(["nearest", "linear"])
    g.add("Resize", [image, "", scales], (count, channels, 2 * height, 2 * width), mode=mode)
    return None


def filtered(g: Graph, x: str) -> None:
    """A convolution along a signal, of what lies before a place or on both sides."""
    signal = g.pick(3)
    if signal is None:
        return unary(g, x)
    count, channels, length = g.values[signal]
    kernel, hole = g.rng.choice([(3, 1), (3, 2), (5, 1), (1, 1)])
    before = hole * (kernel - 1) if g.rng.random() < 0.5 else hole * (kernel // 2)
    group = channels if g.rng.random() < 0.3 else 1
    made = channels if group > 1 else g.rng.choice([4, 8, 12])
    weights = g.weights(made, channels // group, kernel)
    pads = [before, hole * (kernel - 1) - before]
    shape = (count, made, length)
    g.add("Conv", [signal, weights], shape, pads=pads, dilations=[hole], group=group)
    return None


def recurrent(g: Graph, x: str) -> None:
    """All states of a recurrent layer, with the axis of directions gone."""
    sequence = g.pick(3)
    if sequence is None:
        return unary(g, x)
    steps, count, inputs = g.values[sequence]
    op, gates = g.rng.choice([("LSTM", 4), ("GRU", 3)])
    weights = [g.weights(1, gates * 8, size) for size in (inputs, 8)]
    y = g.add(op, [sequence, *weights], (steps, 1, count, 8), hidden_size=8)
    g.add("Squeeze", [y, g.constant(np.array([1], np.int64))], (steps, count, 8))
    return None


def widened(g: Graph, x: str) -> None:
    """A new axis, a value repeated, or running sums."""
    shape = g.values[x]
    axis = g.rng.randrange(len(shape))
    kind = g.rng.choice(["Unsqueeze", "Tile", "CumSum"])
    if kind == "Tile":
        times = [2 if i == axis else 1 for i in range(len(shape))]
        g.add(kind, [x, g.constant(np.array(times))], tuple(map(int.__mul__, shape, times)))
    elif kind == "CumSum":
        g.add(kind, [x, g.constant(np.array(axis))], shape)
    elif len(shape) < 5:
        g.add(kind, [x, g.constant(np.array([axis]))], (*shape[:axis], 1, *shape[axis:]))


def chosen(g: Graph, x: str) -> None:
    """Places of an axis by number, or elements by whether they are positive."""
    shape = g.values[x]
    if g.rng.random() < 0.5:
        axis = g.rng.randrange(len(shape))
        numbers = np.array([g.rng.randrange(-shape[axis], shape[axis]) for _ in range(3)])
        g.add("Gather", [x, g.constant(numbers)], (*shape[:axis], 3, *shape[axis + 1 :]), axis=axis)
        return
    mask = f"mask{len(g.nodes)}"
    g.nodes.append(helper.make_node("Greater", [x, g.weights()], [mask]))
    g.add("Where", [mask, x, g.weights()], shape)


def rounded(g: Graph, x: str) -> None:
    """As bytes and back, of a scale of its own: what is halfway between bytes is anyone's guess."""
    shape, scale = g.values[x], g.constant(np.array(g.numbers.uniform(0.03, 0.07), np.float32))
    zero = g.constant(np.array(g.rng.choice([0, 3]), np.int8 if g.rng.random() < 0.5 else np.uint8))
    name = f"bytes{len(g.nodes)}"
    g.nodes.append(helper.make_node("QuantizeLinear", [x, scale, zero], [name]))
    g.add("DequantizeLinear", [name, scale, zero], shape)


def scaled_by_groups(g: Graph, x: str) -> None:
    """Each image, or each channel of it, less its mean, over its deviation."""
    image = g.pick(4)
    if image is None:
        return unary(g, x)
    channels = g.values[image][1]
    g.add("InstanceNormalization", [image, g.weights(channels), g.weights(channels)], g.values[image])
    return None


STEPS: tuple[Callable[[Graph, str], None], ...] = (
    unary, unary, clip, scaled, scaled, paired, paired, centred, normalized, transposed, reshaped, cut,
    joined, padded, product, convolved, convolved, convolved, attended, resized, filtered, recurrent,
    widened, chosen, rounded, scaled_by_groups,
)  # fmt: skip


def graph(seed: int) -> Graph:
    """A random graph."""
    made = Graph(seed)
    for _ in range(LENGTH):
        value = made.pick()
        assert value is not None
        if len(made.values[value]) < 2 or np.prod(made.values[value]) > 20_000:
            continue
        made.rng.choice(STEPS)(made, value)
    return made
