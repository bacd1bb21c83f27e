"""Formulas of activations and clips: what their patterns take, and what they leave alone, one reason each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from graph_runner import Net
from xdsl.ir import SSAValue

Formula = Callable[[Net, SSAValue], SSAValue]
ROOT, TANH, CUBE = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


def other(n: Net) -> SSAValue:
    """A second matrix of the shape of the first."""
    return n.g.input(np.linspace(0.25, 3, 18, dtype=np.float32).reshape(3, 6))


def whole(n: Net) -> SSAValue:
    """A matrix of integers."""
    return n.g.input(np.arange(-9, 9, dtype=np.int32).reshape(3, 6))


def gelu(n: Net, x: SSAValue, inside: SSAValue, one: float = 1.0, half: float = 0.5) -> SSAValue:
    """half * x * (one + erf(inside))."""
    return n.mul(n.mul(x, n.add(n.erf(inside), one)), half)


def gelu_tanh(n: Net, x: SSAValue, inside: SSAValue) -> SSAValue:
    """x / 2 * (1 + tanh(inside))."""
    return n.mul(n.mul(x, n.add(n.tanh(inside), 1.0)), 0.5)


def cube(n: Net, x: SSAValue, y: SSAValue, factor: float = CUBE) -> SSAValue:
    """factor * x * x * y."""
    return n.mul(n.mul(n.mul(x, x), y), factor)


ACTIVATIONS: dict[str, tuple[Formula, str]] = {
    "swish twice as large": (lambda n, x: n.mul(n.mul(x, 2.0), n.sigmoid(x)), "mul sigmoid mul"),
    "swish of another tensor": (lambda n, x: n.mul(x, n.sigmoid(n.mul(other(n), 2.0))), "mul sigmoid mul"),
    "swish of x + 1": (lambda n, x: n.mul(x, n.sigmoid(n.add(x, 1.0))), "add sigmoid mul"),
    "swish with a slope": (lambda n, x: n.mul(n.sigmoid(n.mul(x, 2.0)), x), "swish"),
    "swish under a predicate": (
        lambda n, x: n.mul(x, n.sigmoid(x), predicate=n.g.input(np.array(True))), "swish",
    ),
    "two gates": (lambda n, x: n.mul(n.mul(x, n.sigmoid(x)), n.tanh(other(n))), "swish tanh mul"),
    "hard swish": (lambda n, x: n.mul(x, n.hard_sigmoid(x, alpha=1 / 6, beta=0.5)), "hard_swish"),
    "hard swish of another slope": (
        lambda n, x: n.mul(x, n.hard_sigmoid(x, alpha=0.2, beta=0.5)), "hard_sigmoid mul",
    ),
    "hard swish of another offset": (
        lambda n, x: n.mul(x, n.hard_sigmoid(x, alpha=1 / 6, beta=0.4)), "hard_sigmoid mul",
    ),
    "hard swish of another tensor": (
        lambda n, x: n.mul(x, n.hard_sigmoid(other(n), alpha=1 / 6, beta=0.5)), "hard_sigmoid mul",
    ),
    "hard swish twice as large": (
        lambda n, x: n.mul(n.mul(x, 2.0), n.hard_sigmoid(x, alpha=1 / 6, beta=0.5)), "mul hard_sigmoid mul",
    ),
    "clipped product": (lambda n, x: n.mul(n.mul(x, n.clip(n.add(x, 3.0), 0, 6)), 1 / 6), "hard_swish"),
    "clipped product, to 5": (
        lambda n, x: n.mul(n.mul(x, n.clip(n.add(x, 3.0), 0, 5)), 1 / 6), "add clip mul mul",
    ),
    "clipped product, from 1": (
        lambda n, x: n.mul(n.mul(x, n.clip(n.add(x, 3.0), 1, 6)), 1 / 6), "add clip mul mul",
    ),
    "clipped product, shifted by 2": (
        lambda n, x: n.mul(n.mul(x, n.clip(n.add(x, 2.0), 0, 6)), 1 / 6), "add clip mul mul",
    ),
    "clipped product of another tensor": (
        lambda n, x: n.mul(n.mul(x, n.clip(n.add(other(n), 3.0), 0, 6)), 1 / 6), "add clip mul mul",
    ),
    "clipped product over 5": (
        lambda n, x: n.mul(n.mul(x, n.clip(n.add(x, 3.0), 0, 6)), 1 / 5), "add clip mul mul",
    ),
    "mish": (lambda n, x: n.mul(x, n.tanh(n.softplus(x))), "mish"),
    "mish of another tensor": (lambda n, x: n.mul(x, n.tanh(n.softplus(other(n)))), "softplus tanh mul"),
    "mish twice as large": (
        lambda n, x: n.mul(n.mul(x, 2.0), n.tanh(n.softplus(x))), "mul softplus tanh mul",
    ),
    "a gate of tanh": (lambda n, x: n.mul(x, n.tanh(x)), "tanh mul"),
    "gelu": (lambda n, x: gelu(n, x, n.mul(x, ROOT)), "gelu"),
    "gelu with a whole": (lambda n, x: gelu(n, x, n.mul(x, ROOT), half=1.0), "mul erf add mul mul"),
    "gelu with two": (lambda n, x: gelu(n, x, n.mul(x, ROOT), one=2.0), "mul erf add mul mul"),
    "gelu without scale": (lambda n, x: gelu(n, x, x), "erf add mul mul"),
    "gelu of another tensor": (lambda n, x: gelu(n, x, n.mul(other(n), ROOT)), "mul erf add mul mul"),
    "tanh gelu": (lambda n, x: gelu_tanh(n, x, n.mul(n.add(x, cube(n, x, x)), TANH)), "gelu"),
    "tanh gelu, cube first": (lambda n, x: gelu_tanh(n, x, n.mul(n.add(cube(n, x, x), x), TANH)), "gelu"),
    "tanh gelu, another scale": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.add(x, cube(n, x, x)), 0.5)),
        "mul mul mul add mul tanh add mul mul",
    ),
    "tanh gelu, another cube": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.add(x, cube(n, x, other(n))), TANH)),
        "mul mul mul add mul tanh add mul mul",
    ),
    "tanh gelu, another factor": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.add(x, cube(n, x, x, 0.05)), TANH)),
        "mul mul mul add mul tanh add mul mul",
    ),
    "tanh gelu, a square": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.add(x, n.mul(n.mul(x, x), CUBE)), TANH)),
        "mul mul add mul tanh add mul mul",
    ),
    "tanh gelu, of another tensor": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.add(y := other(n), cube(n, y, y)), TANH)),
        "mul mul mul add mul tanh add mul mul",
    ),
    "tanh gelu of a product": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, n.add(n.mul(n.mul(x, x), CUBE), 1.0)), TANH)), "gelu",
    ),
    "tanh gelu of a product, two": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, n.add(n.mul(n.mul(x, x), CUBE), 2.0)), TANH)),
        "mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of a product, another factor": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, n.add(n.mul(n.mul(x, x), 0.05), 1.0)), TANH)),
        "mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of a product, not a square": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, n.add(n.mul(n.mul(x, other(n)), CUBE), 1.0)), TANH)),
        "mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of a product, a cube": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, n.add(cube(n, x, x), 1.0)), TANH)),
        "mul mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of a product of another": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(other(n), n.add(n.mul(n.mul(x, x), CUBE), 1.0)), TANH)),
        "mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of a product, the square first": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(n.add(n.mul(n.mul(x, x), CUBE), 1.0), other(n)), TANH)),
        "mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of a product, x twice": (
        lambda n, x: gelu_tanh(
            n, x, n.mul(n.mul(n.mul(x, x), n.add(n.mul(n.mul(x, x), CUBE), 1.0)), TANH)
        ),
        "mul mul add mul mul tanh add mul mul",
    ),
    "tanh gelu of another function": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.exp(x), TANH)), "exp mul tanh add mul mul",
    ),
    "tanh gelu of a product with another function": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, n.exp(x)), TANH)), "exp mul mul tanh add mul mul",
    ),
    "tanh gelu, the cube and another tensor": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.add(cube(n, x, x), other(n)), TANH)),
        "mul mul mul add mul tanh add mul mul",
    ),
    "tanh gelu of a square": (
        lambda n, x: gelu_tanh(n, x, n.mul(n.mul(x, x), TANH)), "mul mul tanh add mul mul",
    ),
    "hard sigmoid of a larger shape": (
        lambda n, x: n.mul(n.clip(n.add(other(n), np.full((2, 3, 6), 2, np.float32)), 0, 4), 0.25),
        "add clip mul",
    ),
    "hard sigmoid of integers": (
        lambda n, x: n.mul(n.clip(n.add(whole(n), np.int32(1)), 0, 1), np.int32(1)), "add clip mul",
    ),
    "hard sigmoid": (lambda n, x: n.mul(n.clip(n.add(x, 2.0), 0, 4), 0.25), "hard_sigmoid"),
    "hard sigmoid from 1": (lambda n, x: n.mul(n.clip(n.add(x, 2.0), 1, 4), 0.25), "add clip mul"),
    "hard sigmoid to 2": (lambda n, x: n.mul(n.clip(n.add(x, 2.0), 0, 4), 0.5), "add clip mul"),
    "hard sigmoid without offset": (lambda n, x: n.mul(n.clip(x, 0, 4), 0.25), "clip mul"),
    "sigmoid": (lambda n, x: n.reciprocal(n.add(n.exp(n.neg(x)), 1.0)), "sigmoid"),
    "sigmoid, times -1": (lambda n, x: n.reciprocal(n.add(n.exp(n.mul(x, -1.0)), 1.0)), "sigmoid"),
    "sigmoid, times -2": (
        lambda n, x: n.reciprocal(n.add(n.exp(n.mul(x, -2.0)), 1.0)), "mul exp add reciprocal",
    ),
    "sigmoid, not negated": (lambda n, x: n.reciprocal(n.add(n.exp(x), 1.0)), "exp add reciprocal"),
    "sigmoid with 2": (lambda n, x: n.reciprocal(n.add(n.exp(n.neg(x)), 2.0)), "neg exp add reciprocal"),
    "softplus": (lambda n, x: n.log(n.add(n.exp(x), 1.0)), "softplus"),
    "softplus, one first": (lambda n, x: n.log(n.add(1.0, n.exp(x))), "softplus"),
    "softplus by log1p": (lambda n, x: n.log1p(n.exp(x)), "softplus"),
    "softplus with 2": (lambda n, x: n.log(n.add(n.exp(x), 2.0)), "exp add log"),
    "softplus of a square": (lambda n, x: n.log1p(n.mul(x, x)), "mul log1p"),
    "softsign of another tensor": (lambda n, x: n.div(x, n.add(n.abs(other(n)), 1.0)), "abs add div"),
    "softsign with 2": (lambda n, x: n.div(x, n.add(n.abs(x), 2.0)), "abs add div"),
    "softsign of integers": (lambda n, x: n.div(w := whole(n), n.add(n.abs(w), np.int32(1))), "abs add div"),
    "leaky relu": (lambda n, x: n.max(x, n.mul(x, 0.25)), "leaky_relu"),
    "leaky relu, slope first": (lambda n, x: n.max(n.mul(x, 0.25), x), "leaky_relu"),
    "leaky relu of slope 0": (lambda n, x: n.max(x, n.mul(x, 0.0)), "leaky_relu"),
    "leaky relu of slope 1": (lambda n, x: n.max(x, n.mul(x, 1.0)), "leaky_relu"),
    "leaky relu of slope 2": (lambda n, x: n.max(x, n.mul(x, 2.0)), "mul max"),
    "leaky relu of slope -1": (lambda n, x: n.max(x, n.mul(x, -1.0)), "mul max"),
    "maximum of x and x": (lambda n, x: n.max(x, x), "max"),
    "leaky relu of another tensor": (lambda n, x: n.max(x, n.mul(other(n), 0.25)), "mul max"),
    "leaky relu of integers": (lambda n, x: n.max(w := whole(n), n.mul(w, np.int32(0))), "mul max"),
}  # fmt: skip
CLIPS: dict[str, tuple[Formula, str]] = {
    "min of max": (lambda n, x: n.min(n.max(x, -1.0), 2.0), "clip"),
    "max of min": (lambda n, x: n.max(n.min(x, 2.0), -1.0), "clip"),
    "limits the wrong way round": (lambda n, x: n.min(n.max(x, 2.0), -1.0), "clip"),
    "a maximum alone": (lambda n, x: n.max(x, 0.5), "max"),
    "a minimum alone": (lambda n, x: n.min(x, 0.0), "min"),
    "a maximum with 0": (lambda n, x: n.max(x, 0.0), "relu"),
    "a maximum of a row": (lambda n, x: n.max(x, np.arange(6, dtype=np.float32)), "max"),
    "a maximum of tensors": (lambda n, x: n.max(x, other(n)), "max"),
    "a larger result": (lambda n, x: n.max(x, np.zeros((2, 3, 6), np.float32)), "max"),
    "integers": (lambda n, x: n.min(n.max(whole(n), np.int32(0)), np.int32(3)), "max min"),
    "a maximum that is read twice": (lambda n, x: n.add(n.min(m := n.max(x, 0.5), 2.0), m), "max min add"),
    "relu of relu": (lambda n, x: n.relu(n.relu(x)), "relu"),
    "clip of clip": (lambda n, x: n.clip(n.clip(x, -1, 1), -0.5, 2), "clip"),
    "clip of clip beside it": (lambda n, x: n.clip(n.clip(x, -1, 0.5), 1, 2), "clip"),
    "clip of clip below it": (lambda n, x: n.clip(n.clip(x, 1, 2), -1, 0.5), "clip"),
    "clip of a wider clip": (lambda n, x: n.clip(n.clip(x, -1, 1), -2, 2), "clip"),
    "clip of relu to infinity": (lambda n, x: n.clip(n.relu(x), -1, math.inf), "relu"),
    "clip without limits": (lambda n, x: n.clip(x, -math.inf, math.inf), ""),
    "clip from -1": (lambda n, x: n.clip(x, -1, math.inf), "clip"),
    "clip to 6": (lambda n, x: n.clip(x, 0, 6), "clip"),
    "clip of sigmoid to 1": (lambda n, x: n.clip(n.sigmoid(x), 0, 1), "sigmoid"),
    "clip of sigmoid to less": (lambda n, x: n.clip(n.sigmoid(x), 0, 0.5), "sigmoid clip"),
    "clip of sigmoid from more": (lambda n, x: n.clip(n.sigmoid(x), 0.5, 1), "sigmoid clip"),
    "clip of bytes to 255": (lambda n, x: n.clip(bytes_of(n), 0, 255), ""),
    "clip of bytes to 254": (lambda n, x: n.clip(bytes_of(n), 0, 254), "clip"),
    "clip of bytes from 1": (lambda n, x: n.clip(bytes_of(n), 1, 255), "clip"),
}  # fmt: skip


def bytes_of(n: Net) -> SSAValue:
    """All bytes there are."""
    return n.g.input(np.arange(256, dtype=np.uint8))


FAMILIES: dict[str, dict[str, tuple[Formula, str]]] = {"activations": ACTIVATIONS, "clips": CLIPS}
