"""What quantisation decides by: channels, schemas, profiles, chains of functions, blocks of weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from graph_runner import Net
from xdsl.dialects.builtin import FloatAttr, f16
from xdsl.dialects.test import TestOp as Item
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.types import Array, UniformQuantizedType, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.module import ConstantOp
from glow_dialects.parse import parse_module
from glow_passes.contract import OrderError, check_order
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.apply_profile import ATTRIBUTE, LOSS, ApplyProfilePass, annotate
from glow_passes.quantize.calibration import _without_zeros
from glow_passes.quantize.channels import LARGEST_FACTOR, SHARE, Channels, even_factors, relative_size
from glow_passes.quantize.convert_floats import ConvertFloatsPass, narrowed
from glow_passes.quantize.costly_layers import costly_layers
from glow_passes.quantize.elementwise_chains import chain_from, variable
from glow_passes.quantize.exact_quantization import ExactQuantizationPass
from glow_passes.quantize.histogram import Histogram
from glow_passes.quantize.instrument import InstrumentPass, instrument
from glow_passes.quantize.profile import Profile, value_names
from glow_passes.quantize.quantize_dynamic import QuantizeDynamicPass
from glow_passes.quantize.quantize_weights import Form, QuantizeWeightsPass, quantize_weights
from glow_passes.quantize.schema import QuantizationError, Schema, covered, symmetric_type
from glow_passes.quantize.weight_blocks import quantize_blocks
from glow_tools.context import tool_context

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(-0.5, 0.7, 8, dtype=np.float32).reshape(4, 2)


# --- channels ----------------------------------------------------------------------------------
@pytest.mark.parametrize("per_channel", [True, False])
def test_sizes_of_weights(per_channel: bool) -> None:
    """The largest of each input, in units of the largest of its output, or of all."""
    weights = np.array([[0.1, -0.02, 0], [-0.05, 0.03, 0]])
    net = Net()
    op = net.matmul(net.g.input(np.ones((2, 2), np.float32)), weights.astype(np.float32)).owner
    assert isinstance(op, GraphOp)
    axes = op.layer_axes()
    assert isinstance(axes, LayerAxes)
    units = [0.1, 0.03, 1] if per_channel else [0.1] * 3
    wanted = [max(abs(w) / u for w, u in zip(row, units, strict=True)) for row in weights]
    np.testing.assert_allclose(relative_size(axes, weights, per_channel), wanted)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("most", [LARGEST_FACTOR, 8.0])
def test_factors_of_channels(scale: float, most: float) -> None:
    """By the sizes of channels and weights, whatever the unit; a channel of zeros counts as a small one."""
    high, weights = np.array([1.0, 40, 0.001, 0, 7]), np.array([1, 0.2, 0.5, 1, 0.0001])
    channels = Channels.of([np.zeros(5), np.zeros(5), high * scale])
    sizes = [max(h, 40 / most) if h else 40 / LARGEST_FACTOR for h in high]
    wanted = [s**SHARE / max(w, 1 / most) ** (1 - SHARE) for s, w in zip(sizes, weights, strict=True)]
    middle = float(np.prod(wanted)) ** (1 / 5)
    factors = even_factors(channels, (0, 40 * scale), weights, most)
    assert factors is not None
    np.testing.assert_allclose(factors, [min(max(w / middle, 1 / most), most) for w in wanted])


def test_channels_without_an_end_stay() -> None:
    """Nothing is known of them; what was read from a file counts as one batch."""
    channels = Channels.of([[0, 0], [0, 0], [np.inf, 1]])
    assert even_factors(channels, (-np.inf, np.inf), np.ones(2)) is None
    mean = Channels.of([[1], [0], [2]])
    mean.add(np.array([[4.0]], np.float32), 1)
    assert mean.mean.tolist() == [2.5]


# --- schemas -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("asymmetric", -128, 127, (1, 0)),
        ("asymmetric", 0, 255, (1, -128)),
        ("asymmetric", -255, 0, (1, 127)),
        ("symmetric", 0, 127, (1, 0)),
        ("symmetric", -128, 10, (1, 0)),
        ("symmetric_uint8", 0, 255, (1, -128)),
        ("symmetric_uint8", -128, 10, (1, 0)),
        ("symmetric_power2", -10, 100, (1, 0)),
        ("symmetric_power2", 0, 128, (2, 0)),
    ],
)
def test_parameters(name: str, low: float, high: float, expected: tuple[float, int]) -> None:
    """(scale, zero point) of ranges."""
    assert Schema(name).parameters(low, high) == expected
    for limits in ((-np.inf, high), (low, np.nan)):
        with pytest.raises(QuantizationError, match="is not finite"):
            Schema(name).parameters(*limits)


def test_scales_of_weights() -> None:
    """The largest number is 127, all in all or by axis; a scale is no less than was asked for."""
    weights = np.array([[0.127, 0.0], [-0.0127, 0.254]])
    np.testing.assert_allclose(symmetric_type(weights).scale_array, [0.002])
    np.testing.assert_allclose(symmetric_type(weights, 0).scale_array, [0.001, 0.002])
    np.testing.assert_allclose(symmetric_type(weights, 1, least=0.0015).scale_array, [0.0015, 0.002])
    np.testing.assert_allclose(symmetric_type(weights, width=16).scale_array, [0.254 / 32767])
    tiny = float(np.finfo(np.float32).tiny)
    assert symmetric_type(weights * 0, least=tiny).scale_array.tolist() == [tiny]
    assert covered(UniformQuantizedType.of(8, 0.5, 3)) == (-65.5, 62)


# --- profiles ----------------------------------------------------------------------------------
def written(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A profile's file, and what is in it."""
    made = Profile(["a = relu x {}"], {"a": Histogram(2, -1, 1, np.array([3.0, 4]))}, batches=1)
    made.channels["a"], made.losses["a"] = Channels.of([[0], [-1], [1]]), 0.5
    made.save(folder / "p.yaml")
    document = yaml.safe_load((folder / "p.yaml").read_text())
    del document["digest"]
    return folder / "p.yaml", document


DAMAGED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another file": (lambda d: {"a": 1}, "not a profile"),
    "a text": (lambda d: "glow_profile", "not a profile"),
    "no bins": (lambda d: d["values"]["a"].update(histogram=""), "range of 'a'"),
    "a range from above": (lambda d: d["values"]["a"].update(min=2.0), "range of 'a'"),
    "an infinite range": (lambda d: d["values"]["a"].update(max=np.inf), "range of 'a'"),
    "infinite counts": (lambda d: d["values"]["a"].update(histogram="1 inf"), "histogram of 'a'"),
    "negative counts": (lambda d: d["values"]["a"].update(histogram="1 -1"), "histogram of 'a'"),
    "no channels": (lambda d: d["channels"].update(a=""), "channels of 'a'"),
    "two numbers per channel": (lambda d: d["channels"].update(a="1 2"), "channels of 'a'"),
    "infinite channels": (lambda d: d["channels"].update(a="1 2 inf"), "channels of 'a'"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_profiles(case: str, tmp_path: Path) -> None:
    """What is wrong, by name; a range of one number, and a bin without any, are none."""
    path, document = written(tmp_path)
    change, message = DAMAGED[case]
    path.write_text(yaml.safe_dump(change(document) or document))
    with pytest.raises(QuantizationError, match=message):
        Profile.load(path)


def test_profiles_of_one_number(tmp_path: Path) -> None:
    path, document = written(tmp_path)
    document["values"]["a"].update(min=1.0, max=1.0, histogram="0 5")
    path.write_text(yaml.safe_dump(document))
    read = Profile.load(path)
    assert read.values["a"].low == read.values["a"].high == 1 and read.values["a"].not_numbers == 0
    assert Profile(["a"]).batches == 0


def test_names_of_values() -> None:
    """Their own where it is theirs alone; else operator, place, and which of the results."""
    n = Net()
    x = n.g.input(X)
    values = n.top_k(x, k=2, axis=1)
    assert isinstance(values.owner, Operation)
    places = values.owner.results[1]
    values.name_hint = "a"
    again = n.relu(values)
    again.name_hint = "a"
    names = value_names(n.g.function)
    assert [names[v] for v in (x, values, places, again)] == ["x1", "a", "n1_1_top_k", "n2_relu"]


def test_ranges_of_nodes(tmp_path: Path) -> None:
    """Of those that the profile has; a pass without a file says so."""
    n = Net()
    n.g.save(n.relu(n.tanh(n.g.input(X))))
    made = Profile.of(n.g.module)
    made.add({"n2_relu": np.array([0, 1], np.float32)})
    annotate(n.g.module, made, Schema(), "none")
    assert [ATTRIBUTE in op.attributes for op in n.g.function.body.block.ops] == [False, False, True, False]
    with pytest.raises(QuantizationError, match="needs profile=FILE"):
        ApplyProfilePass().apply(context(), n.g.module)


def test_wanted_values_are_saved() -> None:
    """Where they have places for it: functions of MLIR have none."""
    bodies = parse_module("func.func @f() { func.return }", "bodies", tool_context())
    with pytest.raises(OrderError, match="glow-instrument works on graphs"):
        check_order(bodies, [InstrumentPass()])
    n = Net()
    n.g.save(n.relu(n.tanh(n.g.input(X))))
    assert instrument(n.g.module, n.g.function, ["n1_tanh"]) == ["n1_tanh"]
    assert instrument(n.g.module, n.g.function) == ["x1", "n1_tanh", "n2_relu"]


@pytest.mark.parametrize(
    ("low", "high", "counts", "wanted"),
    [
        (-2, 2, [1, 2, 90, 5], [1, 2, 5, 5]),
        (-2, 2, [1, 7, 90, 5], [1, 7, 7, 5]),
        (0, 4, [90, 3, 4, 5], [3, 3, 4, 5]),
        (-4, 0, [4, 5, 6, 90], [4, 5, 6, 6]),
        (-1, 3, [4, 50, 6, 7], [4, 6, 6, 7]),
        (1, 5, [90, 3, 4, 5], [90, 3, 4, 5]),
        (-5, -1, [4, 3, 4, 90], [4, 3, 4, 90]),
        (-2, 2, [1, 2, 0, 5], [1, 2, 0, 5]),
    ],
)
def test_zeros_are_taken_out(low: float, high: float, counts: list[float], wanted: list[float]) -> None:
    """The bin of 0 has no more than the fuller one beside it."""
    histogram = Histogram(4, low, high, np.array(counts, np.float64))
    assert _without_zeros(histogram).counts.tolist() == wanted


def test_layers_that_may_stay_float() -> None:
    """A part of the products, no more: the twentieth where the outputs have 45 dB or less."""

    def layers(*entries: tuple[float, int]) -> list[tuple[Operation, int]]:
        made: list[tuple[Operation, int]] = []
        for loss, size in entries:
            made.append((Item(attributes={LOSS: FloatAttr(loss, 64)}), size))
        return made

    noisy = layers((1e-4, 5), (1e-5, 95))
    assert costly_layers(noisy) == {noisy[0][0]}
    large = layers((1e-4, 6), (1e-5, 94))
    assert costly_layers(large) == set()
    fair = layers((5e-5, 5), (1e-6, 95))
    assert costly_layers(fair) == {fair[0][0]}
    quiet = layers((2e-5, 5), (1e-6, 95))
    assert costly_layers(quiet) == set()
    cheap = layers((1e-4, 0), (1e-4, 5), (2e-5, 95))
    assert costly_layers(cheap) == {cheap[0][0], cheap[1][0]}


# --- chains ------------------------------------------------------------------------------------
VARIABLES: dict[str, tuple[Callable[[Net, SSAValue], SSAValue], bool]] = {
    "a function": (lambda n, x: n.sigmoid(x), True),
    "by a number": (lambda n, x: n.mul(x, 2.0), True),
    "by itself": (lambda n, x: n.mul(x, x), True),
    "by a row": (lambda n, x: n.mul(x, X[0]), False),
    "by another": (lambda n, x: n.mul(x, n.g.input(X)), False),
    "of another shape": (lambda n, x: n.mul(x, np.ones((1, 1, 1), np.float32)), False),
    "of another type": (lambda n, x: n.cmp_lt(x, 0.5), False),
    "under a predicate": (lambda n, x: n.sigmoid(x, predicate=n.g.input(np.array(True))), False),
    "of all elements": (lambda n, x: n.softmax(x, axis=1), False),
}


@pytest.mark.parametrize("case", VARIABLES)
def test_the_variable_of_a_function(case: str) -> None:
    """The operand that each element depends on, beside numbers."""
    build, wanted = VARIABLES[case]
    n = Net()
    x = n.g.input(X)
    y = build(n, x)
    n.g.save(y)
    assert isinstance(y.owner, GraphOp)
    array = Symbols(n.g.module).array
    assert (variable(y.owner, array) is x) == wanted
    assert chain_from(y.owner, array) == ([y.owner] if wanted else [])


# --- narrow floats -----------------------------------------------------------------------------
def test_numbers_beyond_16_bits() -> None:
    """The largest one stays, larger ones are far; infinities stay."""
    numbers = np.array([65504, 65505, -1e9, np.inf, 1], np.float32)
    assert narrowed(numbers, tensor((5,), f16)).tolist() == [65504, 16384, -16384, np.inf, 1]


FLOATS: dict[str, tuple[dict[str, Any], Callable[[Net, SSAValue], SSAValue], str]] = {
    "an operator": ({}, lambda n, x: n.relu(x), "cast relu cast"),
    "two operators": ({}, lambda n, x: n.tanh(n.relu(x)), "cast relu tanh cast"),
    "a comparison": ({}, lambda n, x: n.cmp_lt(x, n.g.input(X)), "cmp_lt"),
    "a conversion": ({}, lambda n, x: n.cast(x, results=tensor((3, 4), "int32")), "cast"),
    "a 16-bit input": (
        {},
        lambda n, x: n.relu(n.cast(n.g.input(X.astype(np.float16)), results=tensor((3, 4), "float32"))),
        "relu cast",
    ),
    "a kept operator": ({"keep": ("relu",)}, lambda n, x: n.relu(x), "relu"),
    "a root of squares": (
        {},
        lambda n, x: n.relu(n.sqrt(n.add(n.mul(x, x), n.g.input(X)))),
        "mul add sqrt cast relu cast",
    ),
    "stored weights": ({"storage": True}, lambda n, x: n.matmul(x, W), "cast matmul"),
    "stored integers": ({"storage": True}, lambda n, x: n.gather(x, np.array([1, 0])), "gather"),
}


@pytest.mark.parametrize("case", FLOATS)
def test_narrow_nodes(case: str) -> None:
    """Those between conversions; results are near."""
    options, build, left = FLOATS[case]
    n = Net()
    n.g.save(build(n, n.g.input(np.abs(X) + 1)))
    (want,) = n.g.run()
    ConvertFloatsPass(to="f16", **options).apply(context(), n.g.module)
    n.g.module.verify()
    assert " ".join(n.g.ops()) == left
    np.testing.assert_allclose(n.g.run()[0], want, rtol=3e-3, atol=1e-3)


# --- products without a profile ----------------------------------------------------------------
PRODUCTS: dict[str, tuple[Callable[[Net], SSAValue], bool]] = {
    "constant weights": (lambda n: n.matmul(n.g.input(X), W), True),
    "and a bias": (lambda n: n.fully_connected(n.g.input(X), W, W[0]), True),
    "computed weights": (lambda n: n.matmul(n.g.input(X), n.g.input(W)), False),
    "constants": (lambda n: n.matmul(X, W), False),
    "under a predicate": (lambda n: n.matmul(n.g.input(X), W, predicate=n.g.input(np.array(True))), False),
    "infinite weights": (
        lambda n: n.matmul(n.g.input(X), np.where(W > 0.5, np.inf, W).astype(np.float32)),
        False,
    ),
    "16-bit floats": (lambda n: n.matmul(n.g.input(X.astype(np.float16)), W.astype(np.float16)), False),
}


@pytest.mark.parametrize("item", [QuantizeDynamicPass(), QuantizeWeightsPass(bits=8, group=2)], ids=str)
@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case: str, item: Any) -> None:
    """Which of them have integers; their results are near."""
    build, wanted = PRODUCTS[case]
    n = Net()
    n.g.save(build(n))
    (want,), before = n.g.run(), n.g.ops()
    item.apply(context(), n.g.module)
    assert (n.g.ops() != before) == wanted
    np.testing.assert_allclose(n.g.run()[0], want, atol=0.02)
    if wanted:
        names = [op.sym_name.data for op in n.g.module.ops if isinstance(op, ConstantOp)]
        assert any(name.startswith("weights") for name in names)


def test_names_of_weights_stay() -> None:
    for item, name in ((QuantizeDynamicPass(), "mine"), (QuantizeWeightsPass(group=4), "mine.codes")):
        n = Net()
        w = n.g.constant(W)
        w.name_hint = "mine"
        n.g.save(n.matmul(n.g.input(X), w))
        item.apply(context(), n.g.module)
        assert any(op.sym_name.data.startswith(name) for op in n.g.module.ops if isinstance(op, ConstantOp))


def test_forms_of_weights() -> None:
    """Activations are rounded for whole runs of 32, unless asked not to; what is no form is refused."""
    assert Form() == Form(4, 32, True) and QuantizeWeightsPass() == QuantizeWeightsPass(4, 32, True)
    for form, count, rounded in (
        (Form(4, 32), 1, True),
        (Form(4, 64), 1, True),
        (Form(4, 16), 1, False),
        (Form(4, 32, False), 1, False),
        (Form(4, 48), 0, False),
        (Form(8, 1), 1, False),
    ):
        n = Net()
        n.g.save(n.matmul(n.g.input(np.ones((2, 64), np.float32)), np.ones((64, 2), np.float32)))
        assert quantize_weights(n.g.module, form) == count
        assert ("round_blocks" in n.g.ops()) == rounded
        assert quantize_weights(n.g.module, form) == 0
    with pytest.raises(QuantizationError, match="group=0: expected a number of inputs"):
        Form(4, 0).check()


def test_importance_of_inputs() -> None:
    """By the name of the matrix; inputs that weigh more err less."""
    weights = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)

    def error(importance: Any) -> float:
        n = Net()
        n.g.save(n.matmul(n.g.input(np.eye(32, dtype=np.float32)), weights))
        quantize_weights(n.g.module, Form(4, 32, False), importance)
        return float(np.abs(n.g.run()[0] - weights)[:4].sum())

    assert error({"w2": np.where(np.arange(32) < 4, 1e3, 1e-3)}) < 0.8 * error({})
    assert error({"other": np.where(np.arange(32) < 4, 1e3, 1e-3)}) == error({}) == error(None)


def test_blocks_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scale is the best that is tried; zeros stay zeros; pieces of the matrix change nothing."""
    weights = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    weights[2, :4] = 0
    codes, scales = quantize_blocks(weights, 8, 4)
    unpacked = codes.reshape(6, 8).astype(np.float32) - 128
    np.testing.assert_allclose(unpacked * np.repeat(scales, 4, 1), weights, atol=0.02)
    assert scales[2, 0] == 0 and not unpacked[2, :4].any()
    for row, block in ((0, 0), (5, 1)):
        part = weights[row, block * 4 :][:4]
        assert scales[row, block] == np.float32(np.float16(part[np.abs(part).argmax()] / np.float32(-128)))
        np.testing.assert_array_equal(
            unpacked[row, block * 4 :][:4], np.clip(np.rint(part / scales[row, block]), -128, 127)
        )
    monkeypatch.setattr("glow_passes.quantize.weight_blocks._PIECE", 1)
    again = quantize_blocks(weights, 8, 4)
    np.testing.assert_array_equal(again[0], codes)
    np.testing.assert_array_equal(again[1], scales)
    for block in (0, 3, -4):
        with pytest.raises(
            Exception, match=f"8 inputs of a matrix are not a multiple of the block size {block}"
        ):
            quantize_blocks(weights, 8, block)
    assert quantize_blocks(weights, 8, 1)[1].shape == (6, 8)


@pytest.mark.parametrize("which", ["weights", "recurrence", "both", "neither"])
def test_lstm_of_real_numbers(which: str) -> None:
    """Weights, the recurrence, or both in units of scales are multiplied by them."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Array:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    n = Net()
    scales = {part: drawn(1, 8) + 2 for part in ("weights", "recurrence") if which in (part, "both")}
    x, w, r = n.g.input(drawn(3, 2, 4)), drawn(1, 8, 4), drawn(1, 8, 2)
    held = scales.get("recurrence"), scales.get("weights")
    n.g.save(n.lstm(x, w, r, None, None, None, None, None, *held))
    (want,) = n.g.run()
    ExactQuantizationPass().apply(context(), n.g.module)
    (op,) = [op for op in n.g.module.walk() if isinstance(op, LstmOp)]
    assert op.scales is None and op.input_scales is None
    assert n.g.ops().count("mul") == len(scales)
    np.testing.assert_allclose(n.g.run()[0], want, atol=0.01)
