"""Nodes with ranges: which compute on integers, which stay float, one reason each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Net
from xdsl.dialects.builtin import DenseArrayBase, f32, f64
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, element_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.module import ConstantOp
from glow_dialects.ops.quantize import QuantizeOp, quantized_type
from glow_dialects.ops.requantize import RequantizingOp
from glow_passes.quantize.apply_profile import ATTRIBUTE
from glow_passes.quantize.light_layers import IntegerGains
from glow_passes.quantize.quantize import Options, QuantizePass, Quantizer
from glow_passes.quantize.schema import Schema
from glow_passes.quantize.switched_layers import switched

RNG = np.random.default_rng(0)
X, WEIGHTS, SQUARE = (RNG.uniform(-1, 1, s).astype(np.float32) for s in ((4, 3), (3, 2), (2, 2)))


def at(value: SSAValue, low: float = -4, high: float = 4) -> SSAValue:
    """A value with a range."""
    assert isinstance(value.owner, Operation)
    value.owner.attributes[ATTRIBUTE] = DenseArrayBase.from_list(f64, [float(low), float(high)])
    return value


def given(n: Net, array: Array = X) -> SSAValue:
    """An input with a range."""
    return at(n.g.input(array))


def layer(n: Net, weights: Any = WEIGHTS, **more: Any) -> SSAValue:
    """A product with a range."""
    return at(n.matmul(given(n), weights, **more))


def read(n: Net, value: SSAValue) -> SSAValue:
    """What a layer on integers makes of a value."""
    return at(n.matmul(value, SQUARE))


def first(n: Net) -> SSAValue:
    """A layer of one row."""
    return at(n.matmul(given(n, X[:1]), WEIGHTS))


def twice(n: Net, value: SSAValue) -> SSAValue:
    """A value that another layer reads, too."""
    n.g.save(read(n, value))
    return value


Q = "quantize quantized_fully_connected dequantize"
QQ = f"{Q} {Q}"
SUM = f"{Q} quantize {Q} quantize quantized_add dequantize"
CASES: dict[str, tuple[Callable[[Net], SSAValue], str]] = {
    "a layer": (layer, Q),
    "two layers": (lambda n: read(n, layer(n)), QQ),
    "an input without a range": (lambda n: at(n.matmul(n.g.input(X), WEIGHTS)), "matmul"),
    "a result without a range": (lambda n: n.matmul(given(n), WEIGHTS), "matmul"),
    "computed weights": (lambda n: layer(n, n.g.input(WEIGHTS)), "matmul"),
    "infinite weights": (lambda n: layer(n, np.full((3, 2), np.inf, np.float32)), "matmul"),
    "an infinite bias": (
        lambda n: at(n.fully_connected(given(n), WEIGHTS, np.array([np.inf, 1], np.float32))),
        "fully_connected",
    ),
    "a computed bias": (
        lambda n: at(n.fully_connected(given(n), WEIGHTS, n.g.input(X[0, :2]))),
        "fully_connected",
    ),
    "a relu": (lambda n: read(n, at(n.relu(layer(n)), 0)), f"{Q} relu {Q}"),
    # what moves elements
    "turned": (lambda n: read(n, n.flip(layer(n), axes=(0,))), f"{Q} flip {Q}"),
    "joined": (
        lambda n: read(n, at(n.concat([layer(n), layer(n)], axis=0))),
        f"{Q} quantize {Q} quantize concat dequantize {Q}",
    ),
    "joined with numbers": (
        lambda n: read(n, at(n.concat([layer(n), X[:, :2]], axis=0))),
        f"{Q} quantize concat dequantize {Q}",
    ),
    "joined with an input": (
        lambda n: read(n, at(n.concat([layer(n), given(n, X[:, :2])], axis=0))),
        f"{Q} concat {Q}",
    ),
    "joined without a range": (
        lambda n: n.matmul(n.concat([layer(n), layer(n)], axis=0), SQUARE),
        f"{Q} {Q} concat matmul",
    ),
    # arithmetic
    "a sum": (
        lambda n: read(n, at(n.add(layer(n), layer(n)))),
        f"{SUM} {Q}",
    ),
    "a sum that nobody reads": (lambda n: at(n.add(layer(n), layer(n))), f"{Q} {Q} add"),
    "a sum without a range": (lambda n: n.matmul(n.add(layer(n), layer(n)), SQUARE), f"{Q} {Q} add matmul"),
    "a sum with an input": (lambda n: read(n, at(n.add(layer(n), given(n, X[:, :2])))), f"{Q} add {Q}"),
    "a sum with a row": (
        lambda n: read(n, at(n.add(layer(n), X[0, :2]))),
        f"{Q} quantize quantized_add dequantize {Q}",
    ),
    "a sum with infinities": (
        lambda n: read(n, at(n.add(layer(n), np.array([np.inf, 1], np.float32)))),
        f"{Q} add {Q}",
    ),
    "a sum as weights": (
        lambda n: at(
            n.matmul(given(n, SQUARE), at(n.add(read(n, given(n, SQUARE)), read(n, given(n, SQUARE)))))
        ),
        f"{Q} {Q} add matmul",
    ),
    "a sum as a bias": (
        lambda n: at(
            n.fully_connected(
                given(n),
                WEIGHTS,
                n.reshape(
                    at(n.add(first(n), first(n))),
                    results=tensor((2,), "float32"),
                ),
            )
        ),
        f"{Q} {Q} add reshape fully_connected",
    ),
    "a sum with a mean": (
        lambda n: read(n, at(n.add(layer(n), at(n.softmax(layer(n), axis=1))))),
        f"{Q} {Q} softmax add {Q}",
    ),
    "values of two types": (
        lambda n: read(n, at(n.concat([twice(n, layer(n)), layer(n)], axis=0), -8, 8)),
        f"{Q} quantize {Q} {Q} quantize concat dequantize {Q}",
    ),
    "limits that two read": (
        lambda n: read(n, at(n.add(at(n.sigmoid(s := at(n.relu(layer(n)), 0))), s))),
        f"{Q} relu quantize lookup dequantize quantize quantized_add dequantize {Q}",
    ),
    "limits that two read, without a range": (
        lambda n: read(n, at(n.add(at(n.sigmoid(s := n.relu(layer(n)))), s))),
        f"matmul relu sigmoid add {Q}",
    ),
    "a sum that computed weights read": (
        lambda n: at(n.matmul(at(n.add(layer(n), layer(n))), n.g.input(SQUARE))),
        f"{Q} {Q} add matmul",
    ),
    "a sum that is turned and read": (
        lambda n: read(n, n.flip(at(n.add(layer(n), layer(n))), axes=(0,))),
        f"{SUM} flip {Q}",
    ),
    "a sum of which a function is read": (
        lambda n: read(n, at(n.sigmoid(at(n.add(layer(n), layer(n)))))),
        f"{SUM} quantize lookup dequantize {Q}",
    ),
    "a sum of which a mean is read": (
        lambda n: read(n, at(n.softmax(at(n.add(layer(n), layer(n))), axis=1))),
        f"{Q} {Q} add softmax {Q}",
    ),
    "a sum read twice": (
        lambda n: at(n.add(read(n, s := at(n.add(layer(n), layer(n)))), s)),
        f"{SUM} {Q} add",
    ),
    # functions
    "a function": (lambda n: read(n, at(n.sigmoid(layer(n)))), f"{Q} quantize lookup dequantize {Q}"),
    "a function that nobody reads": (lambda n: at(n.sigmoid(layer(n))), f"{Q} sigmoid"),
    "a function of an input": (lambda n: read(n, at(n.sigmoid(given(n, SQUARE)))), f"sigmoid {Q}"),
    "a function without a range": (lambda n: n.matmul(n.sigmoid(layer(n)), SQUARE), f"{Q} sigmoid matmul"),
    "a function of a function": (
        lambda n: read(n, at(n.tanh(n.mul(at(n.sigmoid(layer(n))), 2.0)))),
        f"{Q} quantize lookup dequantize {Q}",
    ),
    "a function of limits without a range": (
        lambda n: read(n, at(n.sigmoid(n.relu(layer(n))))),
        f"matmul relu sigmoid {Q}",
    ),
}


def quantized(build: Callable[[Net], SSAValue], **options: Any) -> tuple[Net, list[Array]]:
    """The net of a formula, quantised, and its outputs as they were."""
    n = Net()
    n.g.save(build(n))
    want = n.g.run()
    chosen: dict[str, Any] = {"grouped_products": 0, "tiled_outputs": 0, "light_part": 0.0, **options}
    QuantizePass(**chosen).apply(context(), n.g.module)
    n.g.module.verify()
    return n, want


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_integers(case: str) -> None:
    """The nodes that are left; the values of before, but for rounding."""
    build, left = CASES[case]
    n, want = quantized(build)
    assert " ".join(n.g.ops()) == left
    if np.isfinite(want[-1]).all():
        np.testing.assert_allclose(n.g.run()[-1], want[-1], atol=0.25)


KEPT: dict[str, tuple[dict[str, Any], str, str]] = {
    "an operator": ({"keep": ("matmul",)}, "a function", "matmul sigmoid matmul"),
    "the second function": (
        {"keep": ("tanh",)},
        "a function of a function",
        f"{Q} sigmoid mul tanh {Q}",
    ),
    "the first function": ({"keep": ("sigmoid",)}, "a function of a function", f"{Q} sigmoid mul tanh {Q}"),
    "what is kept, by its relu": ({"keep": ("relu",)}, "a relu", f"{Q} relu {Q}"),
    "functions in 16 bits": ({"precision": "int16"}, "a function", f"{Q} sigmoid {Q}"),
    "all functions": (
        {"everything": True},
        "a function of a function",
        f"{Q} quantize lookup dequantize {Q}",
    ),
    "all that can be": (
        {"everything": True},
        "a sum that nobody reads",
        f"{SUM}",
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_options(case: str) -> None:
    options, formula, left = KEPT[case]
    n, _ = quantized(CASES[formula][0], **options)
    assert " ".join(n.g.ops()) == left


def test_predicates_stay() -> None:
    """What stands for a node under a predicate is under it."""
    n, _ = quantized(lambda n: layer(n, predicate=n.g.input(np.array(True))))
    ops = {
        op.name: op.predicate is not None
        for op in n.g.module.walk()
        if isinstance(op, GraphOp) and op.operands
    }
    assert ops["glow.quantized_fully_connected"] and ops["glow.dequantize"] and not ops["glow.quantize"]


@pytest.mark.parametrize("per_channel", [True, False])
def test_scales_of_weights(per_channel: bool) -> None:
    """One a column, or one for all, by the largest number; tiny ones have room for their bias."""
    tiny = WEIGHTS * np.array([1, 1e-9], np.float32)
    n, _ = quantized(
        lambda n: at(n.fully_connected(given(n), tiny, np.array([1, 2], np.float32))), per_channel=per_channel
    )
    (op,) = [op for op in n.g.module.walk() if op.name == "glow.quantized_fully_connected"]
    source, weights = (quantized_type(v) for v in op.operands[:2])
    largest = np.abs(tiny).max(0 if per_channel else None) / 127
    least = np.array([1, 2]) / (source.scale_array * (1 << 26))
    wanted = np.maximum(largest, least) if per_channel else [max(largest, least.max())]
    np.testing.assert_allclose(weights.scale_array, wanted, rtol=1e-6)


def test_a_value_is_stored_once() -> None:
    """However many layers read it; once for each type."""
    n, _ = quantized(lambda n: n.add(at(n.matmul(x := given(n), WEIGHTS)), at(n.matmul(x, WEIGHTS))))
    assert sum(isinstance(op, QuantizeOp) for op in n.g.module.walk()) == 1


def test_ranges_on_which_functions_change() -> None:
    """A value that one function alone reads has the integers of where that changes."""
    n = Net()
    value = at(n.matmul(given(n), WEIGHTS), -10, 16)
    n.g.save(at(n.clip(n.mul(value, 0.5), -1, 4)))
    quantizer = Quantizer(n.g.module, n.g.function, Options(Schema()))
    samples = np.linspace(-10, 16, 4096)
    half = 5 / 512
    changing = [i for i, v in enumerate(samples) if -1 + half < v / 2 < 4 - half]
    low, high = samples[changing[0] - 1], samples[changing[-1] + 1]
    kind = quantizer.kind(value)
    assert kind is not None and kind == Schema().type_of(low, high)
    n.g.save(value)
    assert Quantizer(n.g.module, n.g.function, Options(Schema())).kind(value) == Schema().type_of(-10, 16)


@pytest.mark.parametrize(("bits", "name"), [(32, "int32"), (16, "int16"), (8, "int8")])
def test_biases(bits: int, name: str) -> None:
    """Whole numbers of their units, of the numbers that so many bits have for the largest."""
    n, _ = quantized(
        lambda n: at(n.fully_connected(given(n), WEIGHTS, np.array([0.301, -1.7], np.float32))), bias=name
    )
    (op,) = [op for op in n.g.module.walk() if op.name == "glow.quantized_fully_connected"]
    units = quantized_type(op.operands[0]).scale_array * quantized_type(op.operands[1]).scale_array
    (made,) = [op.array() for op in n.g.module.ops if isinstance(op, ConstantOp) and "i32" in str(op.type)]
    step = 1.7 / (2 ** (bits - 1) - 1)
    real = np.array([0.301, -1.7], np.float32).astype(np.float64)
    rounded = [round(v / step) * step for v in real] if bits < 32 else real
    assert made is not None
    np.testing.assert_array_equal(made, [round(v / u) for v, u in zip(rounded, units, strict=True)])


def test_biases_saturate() -> None:
    n = Net()
    n.g.save(given(n))
    quantizer = Quantizer(n.g.module, n.g.function, Options(Schema()))
    quantizer.bias(np.array([1e9, -1e9, 3], np.float32), np.array([0.1, 0.1, 2]), "b")
    (made,) = [op.array() for op in n.g.module.ops if isinstance(op, ConstantOp)]
    assert made is not None and made.tolist() == [2**31 - 1, -(2**31), 2]


def test_limits_of_values() -> None:
    """Those of a profile are of the first result; constants have their own, where they are real numbers."""
    n = Net()
    values = at(n.top_k(given(n), k=2, axis=1), -3, 3)
    assert isinstance(values.owner, Operation)
    arrays = (
        np.zeros(0, np.float32),
        np.arange(3),
        np.array([np.inf, 1], np.float32),
        np.array([4, -1], np.float32),
    )
    constants = [n.g.constant(a) for a in arrays]
    quantizer = Quantizer(n.g.module, n.g.function, Options(Schema()))
    assert [quantizer.limits(v) for v in values.owner.results] == [(-3, 3), None]
    assert [quantizer.limits(v) for v in constants] == [None, None, None, (-1, 4)]


@pytest.mark.parametrize(
    ("hints", "names"),
    [((None, None, None), ("weights_q", "bias_q", "constant_q")), (("a", "b", "c"), ("a_q", "b_q", "c_q"))],
)
def test_names_of_constants(hints: tuple[str | None, ...], names: tuple[str, ...]) -> None:
    """They keep their own."""

    def build(n: Net) -> SSAValue:
        constants = [n.g.constant(a) for a in (WEIGHTS, WEIGHTS[0], X[:, :2])]
        for value, hint in zip(constants, hints, strict=True):
            value.name_hint = hint
        w, b, other = constants
        return read(n, at(n.concat([at(n.fully_connected(given(n), w, b)), other], axis=0)))

    n, _ = quantized(build)
    made = {op.sym_name.data for op in n.g.module.ops if isinstance(op, ConstantOp)}
    assert set(names) <= made


def test_layers_behind_switches() -> None:
    """Real results come straight from the sums, unless a layer reads them or their range ends at 0."""
    cases: list[tuple[Callable[[Net], SSAValue], int, int]] = [
        (layer, 1, 1),
        (lambda n: read(n, layer(n)), 2, 1),
        (lambda n: at(n.matmul(given(n), WEIGHTS), 0, 4), 1, 0),
    ]
    for build, layers, real in cases:
        n = Net()
        n.g.save(build(n))
        switches = switched(n.g.module, Options(Schema(), gains=IntegerGains(0, 0, 0.0)))
        made = [op for op in n.g.module.walk() if isinstance(op, RequantizingOp)]
        assert len(switches) == layers
        assert sum(element_of(op.results[0]) == f32 for op in made) == real
