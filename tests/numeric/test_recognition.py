"""Formulas as exporters write them become one operator that computes the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph, Net
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph import OPTIMIZE

CTX = context()
RNG = np.random.default_rng(0)


def data(*shape: int, low: float = -2, high: float = 2) -> Array:
    """Random float32 numbers."""
    return RNG.uniform(low, high, shape).astype(np.float32)


def standard(n: Net, x: SSAValue, *axes: int, power: bool = True) -> SSAValue:
    d = n.sub(x, n.mean(x, *axes))
    square = n.pow(d, 2.0) if power else n.mul(d, d)
    return n.div(d, n.sqrt(n.add(n.mean(square, *axes), 1e-5)))


SQRT2 = math.sqrt(2)
TANH = math.sqrt(2 / math.pi)
ROW, OTHER = data(6), data(6)
FORMULAS: dict[str, tuple[tuple[int, ...], Callable[[Net, SSAValue], SSAValue], list[str]]] = {
    "swish": ((3, 6), lambda n, x: n.mul(x, n.sigmoid(x)), ["swish"]),
    "quick gelu": ((3, 6), lambda n, x: n.mul(x, n.sigmoid(n.mul(x, 1.702))), ["swish"]),
    "gelu, torch": (
        (3, 6),
        lambda n, x: n.mul(n.mul(x, n.add(n.erf(n.div(x, SQRT2)), 1.0)), 0.5),
        ["gelu"],
    ),
    "gelu, half first": (
        (3, 6),
        lambda n, x: n.mul(n.mul(0.5, x), n.add(1.0, n.erf(n.mul(x, 1 / SQRT2)))),
        ["gelu"],
    ),
    "gelu, half last": (
        (3, 6),
        lambda n, x: n.mul(x, n.mul(0.5, n.add(1.0, n.erf(n.div(x, SQRT2))))),
        ["gelu"],
    ),
    "gelu, tanh": (
        (3, 6),
        lambda n, x: n.mul(
            n.mul(x, 0.5),
            n.add(1.0, n.tanh(n.mul(TANH, n.add(x, n.mul(0.044715, n.pow(x, 3.0)))))),
        ),
        ["gelu"],
    ),
    "gelu, tanh of a product": (
        (3, 6),
        lambda n, x: n.mul(
            0.5,
            n.mul(
                x,
                n.add(
                    1.0,
                    n.tanh(n.mul(n.mul(x, TANH), n.add(1.0, n.mul(n.mul(0.044715, x), x)))),
                ),
            ),
        ),
        ["gelu"],
    ),
    "hard_swish": (
        (3, 6),
        lambda n, x: n.div(n.mul(x, n.clip(n.add(x, 3.0), 0, 6)), 6.0),
        ["hard_swish"],
    ),
    "hard_swish, gate first": (
        (3, 6),
        lambda n, x: n.mul(x, n.div(n.min(n.relu(n.add(x, 3.0)), 6.0), 6.0)),
        ["hard_swish"],
    ),
    "hard_sigmoid": (
        (3, 6),
        lambda n, x: n.div(n.clip(n.add(x, 3.0), 0, 6), 6.0),
        ["hard_sigmoid"],
    ),
    "mish": ((3, 6), lambda n, x: n.mul(x, n.tanh(n.log(n.add(1.0, n.exp(x))))), ["mish"]),
    "softsign": ((3, 6), lambda n, x: n.div(x, n.add(1.0, n.abs(x))), ["softsign"]),
    "sigmoid": ((3, 6), lambda n, x: n.div(1.0, n.add(1.0, n.exp(n.neg(x)))), ["sigmoid"]),
    "leaky_relu": ((3, 6), lambda n, x: n.max(n.mul(x, 0.1), x), ["leaky_relu"]),
    "relu6": ((3, 6), lambda n, x: n.min(n.max(x, 0.0), 6.0), ["clip"]),
    "softmax": (
        (3, 6),
        lambda n, x: n.div(n.exp(x), n.sum(n.exp(x), 1)),
        ["softmax"],
    ),
    "shifted softmax": (
        (3, 6),
        lambda n, x: n.div(e := n.exp(n.sub(x, n.top(x, 1))), n.sum(e, 1)),
        ["softmax"],
    ),
    "log_softmax": (
        (3, 6),
        lambda n, x: n.log(n.div(e := n.exp(x), n.sum(e, 1))),
        ["log_softmax"],
    ),
    "layer_norm": (
        (3, 6),
        lambda n, x: n.add(n.mul(standard(n, x, 1), ROW), OTHER),
        ["layer_norm"],
    ),
    "layer_norm of products": (
        (2, 3, 6),
        lambda n, x: n.add(n.mul(ROW, standard(n, x, 2, power=False)), OTHER),
        ["layer_norm"],
    ),
    "layer_norm without parameters": ((3, 6), lambda n, x: standard(n, x, 1), ["layer_norm"]),
    "rms_norm": (
        (3, 6),
        lambda n, x: n.mul(
            n.div(x, n.sqrt(n.add(n.mean(n.pow(x, 2.0), 1), 1e-6))),
            ROW,
        ),
        ["rms_norm"],
    ),
    "matmul and bias": (
        (3, 4),
        lambda n, x: n.add(n.matmul(x, data(4, 6)), ROW),
        ["fully_connected"],
    ),
    "matmul of a stack and bias": (
        (2, 3, 4),
        lambda n, x: n.add(n.batch_matmul(x, data(4, 6)), ROW),
        ["reshape", "fully_connected", "reshape"],
    ),
    "scaled and shifted product": (
        (3, 4),
        lambda n, x: n.add(n.mul(n.matmul(x, data(4, 6)), 0.5), ROW),
        ["fully_connected"],
    ),
    "global mean": (
        (2, 3, 4, 5),
        lambda n, x: n.g.b(ReduceMeanOp(x, axes=(2, 3))),
        ["avg_pool", "reshape"],
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    """The formula becomes the operators listed and keeps its values."""
    shape, build, expected = FORMULAS[name]
    n = Net()
    n.g.save(build(n, n.g.input(data(*shape))))
    check(n.g, expected)


def check(g: Graph, expected: list[str]) -> None:
    """The optimised graph has these operators (splats left out) and the same results."""
    before = g.run()
    for item in OPTIMIZE:
        item.apply(CTX, g.module)
        g.module.verify()
    assert [name for name in g.ops() if name != "splat"] == expected
    for want, have in zip(before, g.run(), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


def vectors(count: int) -> list[Array]:
    """Scale, bias, mean and variance of a batch normalisation."""
    return [data(count), data(count), data(count), data(count, low=0.5, high=2)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_batch_norm_into_convolution(transposed: bool, group: int, layout: str, bias: bool) -> None:
    """Convolution, batch norm, a factor and an offset a channel: one convolution."""
    g, last = Graph(), layout == "NHWC"
    x = g.input(data(1, 5, 6, 4) if last else data(1, 4, 5, 6))
    inner, out = 4 // group, 6
    shape = (4, out // group, 3, 3) if transposed else (out, inner, 3, 3)
    w = data(*shape)
    filter = g.constant(np.ascontiguousarray(np.moveaxis(w, 1, -1)) if last else w)
    b = g.constant(data(out)) if bias else None
    kind = ConvTransposeOp if transposed else ConvOp
    y = g.b(kind(x, filter, b, group=group, layout=layout))
    y = g.b(BatchNormOp(y, *map(g.constant, vectors(out)), layout=layout))
    row = (1, 1, 1, out) if last else (1, out, 1, 1)
    y = g.b(AddOp(g.b(MulOp(y, g.constant(data(*row)))), g.constant(data(*row))))
    g.save(y)
    check(g, ["conv_transpose" if transposed else "conv"])


def test_batch_norm_after_two_readers_stays_apart() -> None:
    """The convolution's own result is an output too: its weights stay."""
    g = Graph()
    y = g.b(ConvOp(g.input(data(1, 2, 4, 4)), g.constant(data(3, 2, 1, 1)), None))
    g.save(y)
    g.save(g.b(BatchNormOp(y, *map(g.constant, vectors(3)))))
    check(g, ["conv", "mul", "add"])


def test_scaling_before_convolution() -> None:
    """A factor for each input channel enters the filter; an offset would not be zero in the pads."""
    g = Graph()
    x = g.b(MulOp(g.input(data(1, 2, 4, 4)), g.constant(data(1, 2, 1, 1))))
    g.save(g.b(ConvOp(x, g.constant(data(3, 2, 3, 3)), None, pads=(1, 1, 1, 1))))
    check(g, ["conv"])


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda g, x: ConvOp(x, g.constant(data(3, 2, 3, 3)), None), ["conv"]),
        (lambda g, x: AvgPoolOp(x, kernel=(3, 3)), ["avg_pool"]),
        (lambda g, x: MaxPoolOp(x, kernel=(3, 3)), ["pad", "max_pool"]),
    ],
)
def test_pad_before_window(build: Any, expected: list[str]) -> None:
    """Zeros around the input of a convolution or average are the window's; not of a maximum."""
    g = Graph()
    x = g.b(PadOp(g.input(data(1, 2, 4, 5)), pads=(0, 0, 1, 2, 0, 0, 0, 1)))
    g.save(g.b(build(g, x)))
    check(g, expected)


def test_pad_before_max_pool_of_relu() -> None:
    """Zeros do not win over what is not negative, and every window meets the input."""
    g = Graph()
    x = g.b(PadOp(g.b(ReluOp(g.input(data(1, 2, 4, 5)))), pads=(0, 0, 1, 1, 0, 0, 1, 1)))
    g.save(g.b(MaxPoolOp(x, kernel=(3, 3), strides=(2, 2))))
    check(g, ["relu", "max_pool"])


def test_channels_last_network() -> None:
    """Transposes around each convolution of a channels-last model leave one at each end."""
    g = Graph()
    x = g.input(data(1, 5, 6, 2))
    first, second = (0, 3, 1, 2), (0, 2, 3, 1)
    for inner, out in ((2, 3), (3, 3)):
        x = g.b(TransposeOp(x, permutation=first))
        x = g.b(ConvOp(x, g.constant(data(out, inner, 1, 1)), None))
        x = g.b(TransposeOp(x, permutation=second))
        x = g.b(BatchNormOp(x, *map(g.constant, vectors(out)), layout="NHWC"))
        x = g.b(ReluOp(g.b(AddOp(x, g.constant(data(out))))))
    skip = x
    x = g.b(TransposeOp(x, permutation=first))
    x = g.b(ConvOp(x, g.constant(data(3, 3, 1, 1)), None))
    x = g.b(TransposeOp(x, permutation=second))
    g.save(g.b(ReluOp(g.b(AddOp(x, skip)))))
    check(g, ["transpose", "conv", "relu", "conv", "relu", "conv", "add", "relu", "transpose"])


def test_stack_of_transformer_products_meets_its_activations() -> None:
    """Products of a 3-D tensor are matrix products on one 2-D tensor, nothing between them."""
    n = Net()
    x = n.g.input(data(2, 3, 4))
    h = n.relu(n.add(n.batch_matmul(x, data(4, 8)), data(8)))
    n.g.save(n.add(n.add(n.batch_matmul(h, data(8, 4)), data(4)), x))
    expected = ["reshape", "fully_connected", "relu", "fully_connected", "add", "reshape"]
    check(n.g, expected)


def test_fully_connected_keeps_run_time_bias() -> None:
    """A bias that is computed is a bias all the same."""
    n = Net()
    product = n.matmul(n.g.input(data(3, 4)), data(4, 6))
    n.g.save(n.add(product, n.g.input(data(1, 6))))
    before = n.g.run()
    for item in OPTIMIZE:
        item.apply(CTX, n.g.module)
    assert "fully_connected" in n.g.ops()
    np.testing.assert_allclose(n.g.run()[0], before[0], rtol=1e-5)
    assert FullyConnectedOp.name == "glow.fully_connected"
