"""Which operators stay float among integers and narrow floats: layers of little work, magnified errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import ClipOp, SigmoidOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.unary_math import Log1pOp, LogOp, SqrtOp
from glow_passes.quantize.light_layers import IntegerGains, light_layers, products, tiled_layers
from glow_passes.quantize.magnified_errors import magnified, sensitive


def product(rows: int, inner: int, columns: int) -> tuple[Graph, Any, dict[Any, Any]]:
    """A graph of one product, its operator, its weights."""
    g = Graph()
    x, w = g.input(np.zeros((rows, inner), np.float32)), np.zeros((inner, columns), np.float32)
    weight = g.constant(w)
    return g, g.b(MatmulOp(x, weight)).owner, {weight: w}


@pytest.mark.parametrize(("rows", "inner", "columns"), [(6, 32, 16), (1, 5, 1), (3, 4, 0), (3, 0, 4)])
def test_products_of_a_matrix_product(rows: int, inner: int, columns: int) -> None:
    """One for each row, inner number and column."""
    _, op, known = product(rows, inner, columns)
    (weights,) = known.values()
    assert products(op, weights) == rows * inner * columns


def convolution(
    channels: int = 8, kernel: tuple[int, int] = (3, 3), size: int = 8, layout: str = "NCHW", **options: Any
) -> tuple[Graph, Any, dict[Any, Any]]:
    """A graph of one convolution, its operator, its weights."""
    g, last = Graph(), layout == "NHWC"
    inner = channels // options.get("group", 1)
    shape = (1, size, size, channels) if last else (1, channels, size, size)
    w = np.zeros((channels, *kernel, inner) if last else (channels, inner, *kernel), np.float32)
    weight = g.constant(w)
    op = ConvOp(g.input(np.zeros(shape, np.float32)), weight, None, layout=layout, **options)
    return g, g.b(op).owner, {weight: w}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_products_of_a_convolution(layout: str) -> None:
    """For each place one for each number of a filter."""
    _, op, known = convolution(8, (3, 2), 9, layout, group=2)
    (weights,) = known.values()
    assert products(op, weights) == 7 * 8 * 8 * (4 * 3 * 2)


@pytest.mark.parametrize(
    ("channels", "group", "light"), [(8, 8, True), (8, 4, True), (32, 2, False), (8, 1, False)]
)
def test_grouped_convolutions(channels: int, group: int, light: bool) -> None:
    """Those with few products an output (9, 18; not 144) stay float however much they are in all."""
    g, op, known = convolution(channels, group=group)
    assert light_layers(g.function, known.get, IntegerGains()) == ({op} if light else set())


@pytest.mark.parametrize(("least", "light"), [(18, False), (19, True)])
def test_least_products_of_groups(least: int, light: bool) -> None:
    """As many as the target says are enough."""
    g, op, known = convolution(8, group=4)
    assert light_layers(g.function, known.get, IntegerGains(least)) == ({op} if light else set())


@pytest.mark.parametrize(("part", "kept"), [(0.0, 0), (1 / 16, 1), (0.24, 1), (0.25, 2), (0.99, 2), (1.0, 3)])
def test_smallest_layers(part: float, kept: int) -> None:
    """The smallest first (1 and 3 of 16), up to a part of all; unknown weights count for nothing."""
    g = Graph()
    known: dict[Any, Any] = {}
    ops: dict[int, Any] = {}
    for columns in (12, 1, 3):
        w = np.zeros((1, columns), np.float32)
        known[weight := g.constant(w)] = w
        ops[columns] = g.b(MatmulOp(g.input(np.zeros((1, 1), np.float32)), weight)).owner
    g.b(MatmulOp(g.input(np.zeros((9, 9), np.float32)), g.input(np.zeros((9, 9), np.float32))))
    found = light_layers(g.function, known.get, IntegerGains(light_part=part))
    assert found == {ops[columns] for columns in (1, 3, 12)[:kept]}


TILED: dict[str, tuple[dict[str, Any], bool]] = {
    "as large": ({"size": 8}, True),
    "larger": ({"size": 9}, True),
    "smaller": ({"size": 7}, False),
    "channels last": ({"layout": "NHWC"}, True),
    "grouped": ({"group": 2}, False),
    "strides": ({"size": 20, "strides": (1, 2)}, False),
    "dilations": ({"size": 20, "dilations": (2, 1)}, False),
    "1 x 3": ({"kernel": (1, 3)}, False),
    "5 x 5": ({"kernel": (5, 5), "size": 12}, False),
}


@pytest.mark.parametrize("case", TILED)
def test_tiled_convolutions(case: str) -> None:
    """Plain 3 x 3 ones of 36 outputs and more, on targets that have such kernels."""
    options, tiled = TILED[case]
    g, op, _ = convolution(**options)
    assert tiled_layers(g.function, IntegerGains(tiled_outputs=36)) == ({op} if tiled else set())
    assert tiled_layers(g.function, IntegerGains()) == set()


# --- magnified errors -------------------------------------------------------------------------
def chain(*makers: Any) -> tuple[Graph, list[GraphOp]]:
    """A graph whose operators read one another, and they."""
    g = Graph()
    value, made = g.input(np.ones((4, 4), np.float32)), []
    for maker in makers:
        value = g.b(maker(g, value))
        made.append(value.owner)
    g.save(value)
    return g, made


def layer(g: Graph, x: Any) -> Any:
    return MatmulOp(x, g.constant(np.eye(4, dtype=np.float32)))


def other(g: Graph) -> Any:
    return g.input(np.ones((4, 4), np.float32))


def relu(_: Graph, x: Any) -> Any:
    return ReluOp(x)


def sigmoid(_: Graph, x: Any) -> Any:
    return SigmoidOp(x)


def clip(_: Graph, x: Any) -> Any:
    return ClipOp(x, min=0.1, max=1.0)


def turn(_: Graph, x: Any) -> Any:
    return TransposeOp(x, permutation=(1, 0))


def doubled(_: Graph, x: Any) -> Any:
    return AddOp(x, x)


def squared(_: Graph, x: Any) -> Any:
    return MulOp(x, x)


def less(g: Graph, x: Any) -> Any:
    return SubOp(x, other(g))


def root(_: Graph, x: Any) -> Any:
    return SqrtOp(x)


def logarithm(_: Graph, x: Any) -> Any:
    return LogOp(x)


def logarithm_of_1(_: Graph, x: Any) -> Any:
    return Log1pOp(x)


def over(g: Graph, x: Any) -> Any:
    return DivOp(other(g), x)


def part(g: Graph, x: Any) -> Any:
    return DivOp(x, other(g))


CHAINS: dict[str, tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]] = {
    # The operators, then which stay float among integers, which among narrow floats.
    "no magnifier": ((layer, relu, doubled), (), ()),
    "logarithm": ((sigmoid, layer, turn, doubled, less, logarithm, relu), (1, 2, 3, 4), (1, 2, 3, 4, 5)),
    "log1p": ((relu, layer, squared, logarithm_of_1), (1, 2), (0, 1, 2, 3)),
    "root": ((layer, squared, root), (0, 1), (1, 2)),
    "root of a root": ((layer, squared, root, turn, root), (0, 1, 2, 3), (1, 2, 3, 4)),
    "denominator": ((layer, doubled, over), (0, 1), (1, 2)),
    "root of a logarithm": ((layer, logarithm, doubled, root), (0, 1, 2), (0, 1, 2, 3)),
    "root of a quotient": ((layer, squared, part, root), (), (1, 2, 3)),
    "numerator": ((layer, doubled, part), (), (2,)),
    "clamps": ((layer, squared, clip, relu, root), (), (1, 2, 3, 4)),
    "sigmoid": ((layer, sigmoid, root), (), (2,)),
}


@pytest.mark.parametrize("case", CHAINS)
def test_magnified_errors(case: str) -> None:
    """What roots, logarithms and quotients read, by linear operators alone, or back to the layers before."""
    makers, among_integers, among_floats = CHAINS[case]
    g, made = chain(*makers)
    assert sensitive(g.function) == {made[i] for i in among_integers}
    assert magnified(g.function) == {made[i] for i in among_floats}
