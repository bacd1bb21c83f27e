"""Random layers (convolution, pooling, products, normalisation, recurrence) against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_nodes import Node, Source, check_family

pytestmark = pytest.mark.slow

EACH = 6


def window(s: Source, count: int, pads: bool = True) -> dict[str, Any]:
    """Kernel, strides, and pads or auto_pad over `count` spatial axes."""
    kernel = [s.rng.randint(1, 3) for _ in range(count)]
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": [s.rng.randint(1, 3) for _ in range(count)]}
    if not pads or s.rng.random() < 0.3:
        made["auto_pad"] = s.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        # onnxruntime pools only where SAME pads nothing negative
        made["strides"] = [min(t, k) for t, k in zip(made["strides"], kernel, strict=True)]
    else:
        made["pads"] = [s.rng.randint(0, k - 1) for k in kernel + kernel]
    return made


def image(s: Source, channels: int, count: int) -> np.ndarray:
    """A batch of images."""
    return s.array((s.rng.randint(1, 2), channels, *(s.rng.randint(6, 9) for _ in range(count))))


def convolution(s: Source) -> Any:
    """Conv of 1 to 3 spatial axes: groups, depthwise, dilations, with and without bias."""
    count, group = s.rng.choice([1, 2, 2, 2, 3]), s.rng.choice([1, 1, 2, 4])
    inner, outer = s.rng.randint(1, 4), group * s.rng.randint(1, 5)
    attributes = window(s, count)
    if "pads" in attributes:
        attributes["dilations"] = [s.rng.randint(1, 2) for _ in range(count)]
    x = image(s, inner * group, count)
    weights = s.array((outer, inner, *attributes["kernel_shape"]))
    inputs = [x, weights] + ([s.array((outer,))] if s.flag() else [])
    known = set(range(1, len(inputs))) if s.flag() else set()
    return Node("Conv", inputs, known, {**attributes, "group": group})


def transposed_convolution(s: Source) -> Any:
    """ConvTranspose of 1 or 2 spatial axes."""
    count, group = s.rng.choice([1, 2, 2]), s.rng.choice([1, 1, 2])
    kernel = [s.rng.randint(1, 3) for _ in range(count)]
    strides = [s.rng.randint(1, 3) for _ in range(count)]
    attributes = {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": [s.rng.randint(0, k - 1) for k in kernel + kernel],
        "output_padding": [s.rng.randint(0, t - 1) for t in strides],
        "group": group,
    }
    channels = group * s.rng.randint(1, 3)
    weights = s.array((channels, s.rng.randint(1, 3), *kernel))
    inputs = [image(s, channels, count), weights]
    if s.flag():
        inputs.append(s.array((weights.shape[1] * group,)))
    return Node("ConvTranspose", inputs, {1} if s.flag() else set(), attributes)


def pooling(s: Source) -> Any:
    """MaxPool and AveragePool: ceil_mode, counted padding, indices."""
    op = s.rng.choice(["MaxPool", "AveragePool"])
    count = s.rng.choice([1, 2, 2, 3])
    attributes = window(s, count)
    if "pads" in attributes:
        attributes["ceil_mode"] = s.flag()
    outputs = 1
    if op == "AveragePool":
        attributes["count_include_pad"] = s.flag()
    elif not attributes.get("ceil_mode"):
        outputs = s.rng.randint(1, 2)
    return Node(op, [image(s, s.rng.randint(1, 9), count)], set(), attributes, outputs)


def global_pooling(s: Source) -> Any:
    """Pooling over whole images."""
    return Node(s.rng.choice(["GlobalAveragePool", "GlobalMaxPool"]), [image(s, 3, s.rng.randint(1, 3))])


def product(s: Source) -> Any:
    """MatMul of any ranks, vectors too."""
    m, k, n = (s.rng.randint(1, 20) for _ in range(3))
    batch = s.shape(0, 2, 3)
    left = (*(1 if s.flag() else d for d in batch), m, k)
    right = (*batch[s.rng.randint(0, len(batch)) :], k, n)
    match s.rng.randrange(4):
        case 0:
            left = (k,)
        case 1:
            right = (k,)
        case _:
            pass
    return Node("MatMul", [s.array(left), s.array(right)], {1} if s.flag() else set())


def gemm(s: Source) -> Any:
    """Gemm with factors, transposes and a bias that broadcasts."""
    m, k, n = (s.rng.randint(1, 20) for _ in range(3))
    flip, flop = s.flag(), s.flag()
    inputs = [s.array((k, m) if flip else (m, k)), s.array((n, k) if flop else (k, n))]
    if s.flag():
        inputs.append(s.array(s.rng.choice([(n,), (1, n), (m, 1), (m, n), ()])))
    attributes = {"transA": flip, "transB": flop, "alpha": 0.5, "beta": s.rng.choice([1.0, 2.0])}
    return Node("Gemm", inputs, {1} if s.flag() else set(), attributes)


def normalization(s: Source) -> Any:
    """Batch, instance, layer, local-response and Lp normalisation."""
    channels = s.rng.randint(1, 9)
    x = image(s, channels, s.rng.randint(1, 2))
    one = [s.array((channels,)) for _ in range(3)]
    match s.rng.randrange(5):
        case 0:
            return Node("BatchNormalization", [x, *one, np.abs(s.array((channels,))) + 0.5])
        case 1:
            return Node("InstanceNormalization", [x, *one[:2]])
        case 2:
            axis = s.rng.randrange(1, x.ndim)
            return Node(
                "LayerNormalization",
                [x, s.array(x.shape[axis:]), s.array(x.shape[axis:])],
                set(),
                {"axis": axis},
            )
        case 3:
            x = image(s, channels, 2)
            return Node("LRN", [x], set(), {"size": s.rng.choice([1, 3, 5]), "alpha": 0.1, "bias": 2.0})
        case _:
            return Node("LpNormalization", [x], set(), {"axis": s.axis(x.ndim), "p": s.rng.choice([1, 2])})


def softmax(s: Source) -> Any:
    """Softmax, LogSoftmax and Hardmax along any axis."""
    x = s.array(s.shape(largest=40))
    return Node(s.rng.choice(["Softmax", "LogSoftmax", "Hardmax"]), [x], set(), {"axis": s.axis(x.ndim)})


def recurrence(s: Source) -> Any:
    """LSTM, GRU and RNN in each direction, with and without biases and initial states."""
    op, gates = s.rng.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction = s.rng.choice(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    steps, batch, width, hidden = (s.rng.randint(1, 5) for _ in range(4))
    inputs: list[np.ndarray | None] = [
        s.array((steps, batch, width)),
        s.array((count, gates * hidden, width)),
        s.array((count, gates * hidden, hidden)),
        s.array((count, 2 * gates * hidden)) if s.flag() else None,
        None,
        s.array((count, batch, hidden)) if s.flag() else None,
    ]
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = s.flag()
    while inputs[-1] is None:
        inputs.pop()
    known = {i for i in (1, 2, 3) if i < len(inputs) and inputs[i] is not None}
    return Node(op, inputs, known, attributes, 2)


FAMILIES: dict[str, Callable[[Source], Node]] = {
    f.__name__: f
    for f in (
        convolution, transposed_convolution, pooling, global_pooling, product, gemm, normalization,
        softmax, recurrence,
    )
}  # fmt: skip


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_random_layers(family: str, backend: str) -> None:
    """Shapes, types and values are onnxruntime's."""
    check_family(FAMILIES[family], EACH, backend, rtol=1e-4, atol=2e-5)
