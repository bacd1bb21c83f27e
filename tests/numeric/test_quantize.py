"""Quantisation: schemas, histograms, calibration, profiles, and whole networks against float ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from graph_runner import Graph
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import glow_compiler as glow
from glow_compiler.quantization import (
    Profile,
    QuantizationError,
    QuantizationWarning,
    convert_floats,
    profile,
    quantize,
    report,
    tune,
)
from glow_dialects.core.types import Array, QuantizedArray, UniformQuantizedType
from glow_dialects.ops.activation import ClipOp, SigmoidOp
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.module import functions
from glow_dialects.ops.quantize import dequantize_array, quantize_array
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.relu import ReluOp
from glow_passes.quantize.calibration import CALIBRATIONS, calibrated
from glow_passes.quantize.histogram import Histogram
from glow_passes.quantize.profile import value_names
from glow_passes.quantize.schema import SCHEMAS, Schema, covered, symmetric_type

RNG = np.random.default_rng(0)


def data(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


# --- schemas -----------------------------------------------------------------------------------
REALS = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("name", SCHEMAS)
@settings(max_examples=50, deadline=None)
@given(REALS, REALS)
def test_schema_covers_the_range(name: str, width: int, one: float, other: float) -> None:
    """Every number of the range is represented within half a step, and 0 exactly."""
    low, high = min(one, other), max(one, other)
    kind = Schema(name, width).type_of(low, high)
    scale = float(kind.scale_array[0])
    assert scale == float(np.float32(scale)) > 0
    values = np.array([low, high, (low + high) / 2, 0.0])
    back = dequantize_array(quantize_array(values, kind), kind)
    assert back[3] == 0
    # Asymmetric: the zero point is rounded, which moves the ends by half a step more.
    assert np.abs(back - values).max() <= 1.01 * scale + 1e-30


def test_schemas_of_glow() -> None:
    """The paper's and Glow's own examples of parameters."""
    assert Schema("symmetric").parameters(-1.0, 0.5) == (float(np.float32(1 / 128)), 0)
    scale, zero = Schema("symmetric_uint8").parameters(0.0, 2.55)
    assert (scale, zero) == (float(np.float32(0.01)), -128)
    scale, _ = Schema("symmetric_power2").parameters(-1.0, 0.9)
    assert scale == 2.0**-7
    low, high = covered(Schema("asymmetric").type_of(-1.0, 3.0))
    assert low <= -0.99 and high >= 2.99


@pytest.mark.parametrize("limits", [(0.0, 0.0), (5.0, 5.0), (-3.0, -3.0), (1.0, 2.0), (-1e30, 1e30)])
def test_odd_ranges(limits: tuple[float, float]) -> None:
    """Constants, one sign only, and outliers of 1e30 give usable parameters."""
    for name in SCHEMAS:
        scale, _ = Schema(name).parameters(*limits)
        assert np.isfinite(scale) and scale > 0


def test_infinite_range_is_an_error() -> None:
    with pytest.raises(QuantizationError, match="not finite"):
        Schema().parameters(0.0, float("inf"))


def test_weights_with_a_zero_channel() -> None:
    """A channel of zeros has a scale and stays zero."""
    w = data(3, 4)
    w[1] = 0
    kind = symmetric_type(w, 0)
    assert (kind.scale_array > 0).all()
    back = dequantize_array(quantize_array(w.astype(np.float64), kind), kind)
    np.testing.assert_allclose(back, w, atol=kind.scale_array.max())
    assert not back[1].any()


# --- histograms and calibration ------------------------------------------------------------------
def test_histogram_grows_with_the_data() -> None:
    """Counts are kept and the distribution is about right when batches widen the range."""
    histogram = Histogram()
    parts = [data(10000) * factor for factor in (0.1, 1, 3)]
    for part in parts:
        histogram.add(part)
    everything = np.concatenate(parts)
    assert histogram.total == pytest.approx(everything.size)
    assert (histogram.low, histogram.high) == (everything.min(), everything.max())
    expected, _ = np.histogram(everything, bins=32, range=(histogram.low, histogram.high))
    actual = histogram.counts.reshape(32, -1).sum(axis=1)
    assert np.abs(actual - expected).max() < 0.02 * everything.size


def test_histogram_of_what_is_no_number() -> None:
    histogram = Histogram()
    histogram.add(np.array([1.0, np.nan, np.inf, 2.0]))
    assert histogram.not_numbers == 1 and histogram.total == 3
    assert histogram.high == np.finfo(np.float32).max


@pytest.mark.parametrize("method", CALIBRATIONS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_calibration_of_outliers(method: str, name: str) -> None:
    """Cutting one outlier in 100000 values makes the mean square error smaller, never much larger."""
    values = data(100000)
    values[0] = 100
    histogram = Histogram()
    histogram.add(values)
    schema = Schema(name)

    def error(limits: tuple[float, float]) -> float:
        kind = schema.type_of(*limits)
        inner = values[1:].astype(np.float64)
        return float(np.mean((dequantize_array(quantize_array(inner, kind), kind) - inner) ** 2))

    limits = calibrated(histogram, schema, method)
    assert limits[0] <= 0 <= limits[1]
    if method == "none":
        assert limits[1] == 100
    else:
        assert error(limits) <= error((histogram.low, histogram.high)) * 1.01


@pytest.mark.parametrize("method", CALIBRATIONS)
def test_calibration_of_a_constant(method: str) -> None:
    histogram = Histogram()
    histogram.add(np.full(10, 3.0))
    assert Schema().type_of(*calibrated(histogram, Schema(), method)).scale_array[0] > 0


def test_unknown_names_are_named() -> None:
    histogram = Histogram()
    histogram.add(data(9))
    with pytest.raises(QuantizationError, match="'entropy'; there are: none, kl"):
        calibrated(histogram, Schema(), "entropy")
    with pytest.raises(QuantizationError, match="unknown schema 'odd'"):
        Schema("odd")
    with pytest.raises(QuantizationError, match="unknown precision 'int4'"):
        Schema.of("symmetric", "int4")


# --- networks --------------------------------------------------------------------------------------
def network(batch: int = 1) -> Graph:
    """A small residual network: convolutions, batch norm, pools, concat, an activation, a product."""
    rng = np.random.default_rng(7)
    g = Graph()

    def weights(*shape: int) -> SSAValue:
        fan = np.prod(shape[1:] if len(shape) > 2 else shape[:1])
        return g.constant((rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def block(x: SSAValue, inner: int, out: int, activation: bool = True) -> SSAValue:
        y = g.b(ConvOp(x, weights(out, inner, 3, 3), None, pads=(1, 1, 1, 1)))
        stats = [rng.uniform(0.5, 1.5, out).astype(np.float32) for _ in range(4)]
        y = g.b(BatchNormOp(y, *map(g.constant, stats)))
        return g.b(ReluOp(y)) if activation else y

    x = block(g.input(np.zeros((batch, 3, 12, 12), np.float32)), 3, 8)
    x = g.b(MaxPoolOp(x, kernel=(2, 2), strides=(2, 2)))
    x = g.b(ReluOp(g.b(AddOp(x, block(block(x, 8, 8), 8, 8, False)))))
    gate = g.b(SigmoidOp(block(x, 8, 8, False)))
    x = g.b(ConcatOp([g.b(ClipOp(block(x, 8, 8, False), min=0.0, max=6.0)), gate], axis=1))
    x = g.b(ReduceMeanOp(x, axes=(2, 3)))
    g.save(g.b(AddOp(g.b(MatmulOp(x, weights(16, 10))), g.constant(data(10)))))
    return g


def feeds(count: int = 6, batch: int = 1) -> list[dict[str, Array]]:
    rng = np.random.default_rng(3)
    return [{"x10": rng.standard_normal((batch, 3, 12, 12)).astype(np.float32)} for _ in range(count)]


def named(graph: Graph) -> tuple[ModuleOp, Callable[[list[dict[str, Array]]], list[dict[str, Array]]]]:
    """The module, and a function that gives feeds the name of its one input."""
    (name,) = graph.inputs
    return graph.module, lambda fs: [{name: next(iter(f.values()))} for f in fs]


def decibels(module: ModuleOp, other: ModuleOp, batches: list[dict[str, Array]]) -> float:
    """Signal-to-noise ratio of the outputs."""
    nets = [glow.compile(m, backend="interpreter") for m in (module, other)]
    signal = noise = 0.0
    for feed in batches:
        want, have = (next(iter(net.run(feed).values())).astype(np.float64) for net in nets)
        signal += float(np.sum(want**2))
        noise += float(np.sum((want - have) ** 2))
    return 10 * np.log10(signal / noise) if noise else np.inf


def quantized_ops(module: ModuleOp) -> list[str]:
    body = next(functions(module)).body.block.ops
    skip = ("glow.get", "glow.save")
    return [op.name.removeprefix("glow.") for op in body if op.name not in skip]


@pytest.mark.slow
@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_network_keeps_its_outputs(schema: str, calibration: str) -> None:
    """Every schema and calibration keeps the outputs of random weights within a few percent."""
    module, rename = named(network())
    batches = rename(feeds())
    made = quantize(module, batches, schema=schema, calibration=calibration, backend="interpreter")
    made.verify()
    assert decibels(module, made, batches) > 27


def test_network_is_one_island() -> None:
    """One quantize at the input; the last product gives real numbers itself."""
    module, rename = named(network())
    made = quantize(module, rename(feeds()), backend="interpreter", everything=True)
    ops = quantized_ops(made)
    assert ops.count("quantize") == 1 and ops[0] == "quantize"
    assert not {"dequantize", "relu", "clip", "conv", "add", "sigmoid"} & set(ops)
    assert ops[-1] == "quantized_fully_connected"
    assert "lookup" in ops and ops.count("rescale") <= 1


@pytest.mark.slow
def test_more_bits_and_rows_are_better() -> None:
    """int16 activations beat int8, scales for each channel beat one scale."""
    module, rename = named(network())
    batches = rename(feeds())

    def quality(**options: object) -> float:
        made = quantize(module, batches, backend="interpreter", **options)  # pyright: ignore
        return decibels(module, made, batches)

    best = quality()
    assert quality(precision="int16") > best
    assert quality(per_channel=False) < best
    assert quality(bias="int8") <= best + 0.5


def test_kept_layers_stay_float() -> None:
    module, rename = named(network())
    made = quantize(module, rename(feeds()), keep=("conv",), backend="interpreter")
    assert "quantized_conv" not in quantized_ops(made) and "conv" in quantized_ops(made)


def test_profile_round_trip(tmp_path: Path) -> None:
    """A profile written and read gives the same integers; another batch size may use it."""
    module, rename = named(network())
    batches = rename(feeds())
    made = profile(module, batches, backend="interpreter")
    path = tmp_path / "profile.yaml"
    made.save(path)
    direct = quantize(module, made)
    again = quantize(module, path)
    assert decibels(direct, again, batches) > 60
    wide, rename = named(network(batch=4))
    many = quantize(wide, path)
    assert decibels(wide, many, rename(feeds(2, 4))) > 27


def test_profile_of_another_graph_names_the_difference() -> None:
    module, rename = named(network())
    made = profile(module, rename(feeds()), backend="interpreter")
    other = Graph()
    x = other.input(np.zeros((1, 3, 12, 12), np.float32))
    other.save(other.b(SigmoidOp(other.b(ConvOp(x, other.constant(data(8, 3, 3, 3)), None)))))
    with pytest.raises(QuantizationError, match="of another graph: node 0 is `.*conv"):
        quantize(other.module, made)


def test_damaged_profiles(tmp_path: Path) -> None:
    """Each kind of damage is one clear message."""
    module, rename = named(network())
    path = tmp_path / "profile.yaml"
    profile(module, rename(feeds(1)), backend="interpreter").save(path)
    good = re.sub(r"\ndigest: .*", "", path.read_text())  # which would be told first

    def error(text: str) -> str:
        path.write_text(text)
        with pytest.raises(QuantizationError) as caught:
            Profile.load(path)
        return str(caught.value)

    assert "not a profile" in error("[1, 2]")
    assert "damaged" in error(good[: len(good) // 2] + "\n  : [")
    assert "version 99" in error(good.replace("glow_profile: 4", "glow_profile: 99"))
    assert "graph and hash differ" in error(good.replace("quantized", "x").replace("conv", "cov"))
    assert "range of" in error(good.replace("min: ", "min: .nan #", 1))
    assert "channels of" in error(good.replace("\nend: true", " 1.0\nend: true"))
    assert "losses" in error(re.sub(r"(losses:\n  \w+: ).*", r"\1.inf", good))
    assert "histogram of" in error(good.replace("histogram: ", "histogram: -1 ", 1))
    assert "its end is missing" in error(good.replace("end: true", "end: tr"))
    assert "it has no 'channels'" in error(good.replace("\nchannels:", "\nother:"))
    with pytest.raises(QuantizationError, match="cannot be read: Is a directory"):
        Profile.load(tmp_path)
    with pytest.raises(QuantizationError, match="no such profile"):
        Profile.load(tmp_path / "none.yaml")


def test_bad_data() -> None:
    module, rename = named(network())
    with pytest.raises(QuantizationError, match="empty"):
        quantize(module, [])
    for wrong, kind in ((None, "NoneType"), (3, "int"), (rename(feeds(1))[0], "dict")):
        with pytest.raises(QuantizationError, match=f"the data is a {kind}, expected a list of dicts"):
            quantize(module, wrong)  # pyright: ignore[reportArgumentType]
    good, give = rename(feeds(1)), [None, float("nan")]
    for answer, message in zip(give, ("gave a NoneType", "in float the metric is nan"), strict=True):
        with pytest.raises(QuantizationError, match=message):
            tune(module, iter(good), lambda _, a=answer: a, 0.5, backend="interpreter", limit=1)  # pyright: ignore
    bad = rename(feeds(1))
    for array in bad[0].values():
        array[...] = np.nan
    with pytest.raises(QuantizationError, match="NaN only"):
        quantize(module, bad, backend="interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("value", [1e30, np.inf])
def test_absurd_outliers(value: float, calibration: str, backend: str) -> None:
    """One number out of all proportion is saturated, with a warning, and costs no accuracy."""
    module, rename = named(network())
    batches = rename(feeds(8))
    spoiled = [{n: a.copy() for n, a in feed.items()} for feed in batches]
    next(iter(spoiled[3].values()))[0, 0, 0, 0] = value
    with pytest.warns(QuantizationWarning, match="1 of 432 numbers of input 'x1.*' in batch 3"):
        made = quantize(module, spoiled, calibration=calibration, backend=backend)
    assert decibels(module, made, batches) > 27


def test_unknown_names_to_keep() -> None:
    module, rename = named(network())
    with pytest.raises(QuantizationError, match="'quantized_covn'; did you mean 'quantized_conv'"):
        quantize(module, rename(feeds(1)), keep=("quantized_covn",), backend="interpreter")
    made = quantize(module, rename(feeds(1)), keep="conv", backend="interpreter")
    assert "quantized_conv" not in quantized_ops(made)


def test_data_that_are_no_dicts() -> None:
    module, _ = named(network())
    with pytest.raises(QuantizationError, match="batch 0 of the data is a ndarray, expected a dict"):
        quantize(module, [np.zeros(3)])  # pyright: ignore[reportArgumentType]


def test_constant_data() -> None:
    """All zeros in: ranges of one number each, and a network all the same."""
    module, rename = named(network())
    zeros = [{n: np.zeros_like(a) for n, a in f.items()} for f in rename(feeds(1))]
    quantize(module, zeros, backend="interpreter").verify()


@pytest.mark.parametrize("per_channel", [False, True])
def test_bias_of_tiny_weights(per_channel: bool) -> None:
    """A channel that training has left without weights keeps its bias."""
    g = Graph()
    w = data(4, 3, 1, 1)
    w[1:] *= 1e-12
    y = ConvOp(g.input(data(1, 3, 4, 4)), g.constant(w), g.constant(np.array([1, 2, -3, 0.5], np.float32)))
    g.save(g.b(y))
    made = quantize(g.module, [g.inputs], per_channel=per_channel, backend="interpreter")
    assert decibels(g.module, made, [g.inputs]) > 35


def test_report_lists_worst_layers_first() -> None:
    module, rename = named(network())
    made = report(module, rename(feeds(2)), backend="interpreter")
    values = [layer.decibels for layer in made.layers]
    assert values == sorted(values) and len(values) > 8
    assert all(v > 20 for v in values)
    assert "conv" in made.table()


def test_every_value_has_a_name_of_its_own() -> None:
    """A name that is made up is none that another value has."""
    g = Graph()
    y = g.b(ReluOp(g.input(np.zeros(3, np.float32))))
    y.name_hint = "n2_relu"
    g.save(g.b(ReluOp(y)))
    names = list(value_names(next(functions(g.module))).values())
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("to", "least"), [("f16", 50), ("bf16", 30)])
@pytest.mark.parametrize("storage", [False, True])
def test_narrow_floats(to: str, least: float, storage: bool) -> None:
    """16-bit floats keep the outputs; only the borders convert where computation is narrow too."""
    module, rename = named(network())
    made = convert_floats(module, to, storage=storage)
    made.verify()
    assert decibels(module, made, rename(feeds(2))) > least
    ops = quantized_ops(made)
    assert storage or ops.count("cast") == 2


def test_float16_saturates() -> None:
    """Weights that float16 cannot hold, such as masks, become large numbers whose sums are finite."""
    g = Graph()
    x = g.input(np.ones(2, np.float32))
    g.save(g.b(AddOp(x, g.constant(np.array([1e6, 1], np.float32)))))
    out = next(
        iter(glow.compile(convert_floats(g.module, "f16"), backend="interpreter").run(g.inputs).values())
    )
    np.testing.assert_array_equal(out, [16384, 2])
    with pytest.raises(QuantizationError, match="unknown float type 'f8'"):
        convert_floats(g.module, "f8")
    with pytest.raises(
        QuantizationError, match="keep: the graph has no value or operator 'softmx'.*'softmax'"
    ):
        convert_floats(g.module, "f16", keep=["softmx"])


@pytest.mark.slow
def test_tuner_keeps_few_layers_in_float() -> None:
    """The metric is reached with fewer layers in float than there are."""
    module, rename = named(network())
    batches = rename(feeds(2))
    start = decibels(module, quantize(module, batches, backend="interpreter"), batches)
    made, kept, value = tune(
        module,
        batches,
        lambda m: decibels(module, m, batches),
        start + 2,
        backend="interpreter",
    )
    assert value >= start + 2 and 0 < len(kept) < 12
    made.verify()


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [1, 63, 64, 1000])
def test_lookup_on_cpu(count: int, signed: bool) -> None:
    """Every byte finds its entry, in whole vectors and behind them."""
    rng = np.random.default_rng(count)
    low = -128 if signed else 0
    kind = UniformQuantizedType.of(8, 0.5, 0, signed)
    to = UniformQuantizedType.of(8, 0.25, 3)
    x = QuantizedArray.of(rng.integers(low, low + 256, count), kind)
    table = rng.integers(-128, 128, 256).astype(np.int8)
    g = Graph()
    g.save(g.b(LookupOp(g.input(x), g.input(QuantizedArray.of(table, to)))))
    (out,) = glow.compile(g.module).run(g.inputs).values()
    np.testing.assert_array_equal(out, table[np.asarray(x, np.int64) - low])


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_dynamic_products(backend: str) -> None:
    """Rows of very different size, one of zeros, keep their precision without a profile."""
    g = Graph()
    rows = data(6, 32) * np.array([[1e-3], [1], [1e4], [0], [5], [1e-8]], np.float32)
    y = g.b(FullyConnectedOp(g.input(rows), g.constant(data(32, 24)), g.constant(data(24))))
    g.save(g.b(MatmulOp(y, g.constant(data(24, 8)))))
    made = glow.quantize_dynamic(g.module)
    made.verify()
    assert quantized_ops(made).count("quantized_fully_connected") == 2
    (want,) = glow.compile(g.module, backend="interpreter").run(g.inputs).values()
    (have,) = glow.compile(made, backend=backend).run(g.inputs).values()
    error = np.abs(have - want).max(axis=1) / np.abs(want).max(axis=1)
    assert error.max() < 0.05
