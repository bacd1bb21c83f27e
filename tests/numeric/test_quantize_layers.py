"""What quantisation knows of layers: their channels, their arithmetic, what their readers see."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.test import TestOp as Node

import glow_compiler as glow
from glow_compiler.quantization import profile, quantize
from glow_dialects.core.types import Array
from glow_dialects.ops.module import functions
from glow_passes.quantize.apply_profile import LOSS
from glow_passes.quantize.channels import Channels, even_factors
from glow_passes.quantize.costly_layers import costly_layers

RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _operators(module: object) -> list[str]:
    return [op.name.removeprefix("glow.") for op in next(functions(module)).body.block.ops]  # pyright: ignore


def _decibels(want: Array, have: Array) -> float:
    return 10 * float(np.log10((want**2).sum() / ((want - have) ** 2).sum()))


def test_channels_add_up() -> None:
    """Means and ranges over batches are those of all numbers together."""
    made, batches = Channels(), [_normal(2, 5, 3) for _ in range(4)]
    for batch in batches:
        made.add(batch, 1)
    rows = np.concatenate(batches).transpose(1, 0, 2).reshape(5, -1)
    np.testing.assert_allclose(made.mean, rows.mean(1), rtol=1e-5)
    np.testing.assert_array_equal([made.low, made.high], [rows.min(1), rows.max(1)])
    again = Channels.of(made.numbers())
    np.testing.assert_array_equal(again.high, made.high)
    made.add(np.full((1, 5, 2), np.inf, np.float32), 1)
    assert np.isfinite(made.high).all()


def test_even_factors() -> None:
    """Large channels with small weights give most; even channels and zeros are left alone."""
    spread = Channels.of([np.zeros(3), [-1, -1, -1], [1, 1, 50]])
    factors = even_factors(spread, (-60, 60), np.ones(3))
    assert factors is not None and factors[2] > 5 * factors[0] > 0
    assert even_factors(Channels.of([[0, 0], [-1, -1], [1, 2]]), (-2, 2), np.ones(2)) is None
    assert even_factors(Channels.of([[0, 0], [0, 0], [0, 0]]), (0, 0), np.ones(2)) is None
    assert even_factors(spread, (-60, 60), np.zeros(3)) is None
    # What calibration cut off does not count.
    assert even_factors(spread, (-2, 2), np.ones(3)) is None
    # Features in units of their own, one of which never changed: that one keeps room.
    apart = Channels.of([np.zeros(3), [0, 0, 0], [1e-3, 1e3, 0]])
    usual, wide = (even_factors(apart, (0, 1e3), np.array([1, 1e-3, 1]), **m) for m in ({}, {"most": 1e6}))
    assert usual is not None and wide is not None
    assert wide[1] / wide[0] > 100 * usual[1] / usual[0]
    assert wide[2] > wide[0]


def test_features_in_units_of_their_own() -> None:
    """Inputs of which some are a million times as large as others, each as important."""
    x, w = _normal(256, 24), _normal(24, 16)
    units = np.logspace(-3, 3, 24).astype(np.float32)
    g, feed = _product(x * units, w / units[:, None])
    module = quantize(g, [feed], backend="interpreter")
    assert "quantized_fully_connected" in _operators(module)
    assert _decibels(x @ w, glow.compile(module, backend="interpreter").run(feed)["y"]) > 30


def _product(x: Array, w: Array) -> tuple[glow.GraphBuilder, dict[str, Array]]:
    g = glow.GraphBuilder()
    value = g.placeholder("x", x.shape)
    g.save(g.matmul(value, g.constant(w, "w")), "y")
    return g, {"x": x}


def test_uneven_channels_of_a_product() -> None:
    """One channel a hundred times as large as the others costs next to no accuracy."""
    x, w = _normal(64, 48), _normal(48, 32)
    x[:, 7] *= 100
    w[7] /= 100
    g, feed = _product(x, w)
    module = quantize(g, [feed], backend="interpreter")
    assert "quantized_fully_connected" in _operators(module) and "mul" in _operators(module)
    have = glow.compile(module, backend="interpreter").run(feed)["y"]
    assert _decibels(x @ w, have) > 33  # 14 with one scale for all channels


def test_even_channels_are_left_alone() -> None:
    g, feed = _product(_normal(64, 48), _normal(48, 32))
    assert "mul" not in _operators(quantize(g, [feed], backend="interpreter"))


def test_rounded_weights_keep_the_mean() -> None:
    """Inputs far from zero: what rounding the weights adds to every output is in the bias."""
    x, w = (_normal(512, 64) / 4 + 3).astype(np.float32), _normal(64, 8)
    g, feed = _product(x, w)
    have = glow.compile(quantize(g, [feed], backend="interpreter"), backend="interpreter").run(feed)["y"]
    want = x.astype(np.float64) @ w
    assert np.abs((have - want).mean(0)).max() < 0.2 * np.abs(have - want).std()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("everything", [False, True])
def test_layers_of_little_arithmetic(everything: bool, layout: str) -> None:
    """A depthwise convolution between two full ones stays float, unless everything is asked for."""
    g = glow.GraphBuilder()
    last = layout == "NHWC"
    shape = (1, 8, 8, 16) if last else (1, 16, 8, 8)
    x = g.placeholder("x", shape)

    def conv(value: object, inner: int, size: int, group: int = 1) -> object:
        kernel = (16, size, size, inner) if last else (16, inner, size, size)
        pads = (size // 2,) * 4
        w = g.constant(_normal(*kernel) / 4)
        return g.conv(value, w, pads=pads, group=group, layout=layout)  # pyright: ignore

    y = g.hard_swish(conv(x, 16, 3))  # pyright: ignore
    g.save(conv(g.hard_swish(conv(y, 1, 3, 16)), 16, 1), "y")  # pyright: ignore
    feed = {"x": _normal(*shape)}
    feed["x"][..., :2] *= 20
    module = quantize(g, [feed], backend="interpreter", everything=everything)
    operators = _operators(module)
    assert operators.count("conv") == (0 if everything else 1)
    assert operators.count("lookup") == (2 if everything else 0)
    want = glow.compile(g, backend="interpreter").run(feed)["y"]
    interpreted = glow.compile(module, backend="interpreter").run(feed)["y"]
    assert _decibels(want, interpreted) > (24 if everything else 30)


def test_activation_ranges_end_where_it_is_constant() -> None:
    """hard_swish sends all below -3 to 0: the integers before it need not reach further."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 8, 8, 8))
    y = g.conv(x, g.constant(_normal(8, 8, 3, 3)))
    g.save(g.conv(g.hard_swish(y), g.constant(_normal(8, 8, 3, 3))), "y")
    feed = {"x": _normal(1, 8, 8, 8) * 4}  # well below -3
    module = quantize(g, profile(g, [feed], backend="interpreter"))
    lookups = [op for op in next(functions(module)).body.block.ops if op.name == "glow.lookup"]
    (kind,) = (op.operands[0].type.element_type for op in lookups)  # pyright: ignore
    step = kind.scale_array[0]  # pyright: ignore
    assert abs((-128 - kind.zero_point_array[0]) * step + 3) < 2 * step  # pyright: ignore


@pytest.mark.slow
def test_costly_layers_stay_float() -> None:
    """Of eight layers, the small one with a narrow result of large inputs costs most by far."""
    rng = np.random.default_rng(5)
    g = glow.GraphBuilder()
    value = g.placeholder("x", (64, 64))
    x = rng.standard_normal((64, 64)).astype(np.float32)
    x[0, :4] = 300  # leaves no integers for the others, and the clip behind hides it
    y = g.clip(g.matmul(value, g.constant(rng.standard_normal((64, 64)).astype(np.float32))), -9.0, 9.0)
    for _ in range(24):
        y = g.relu(g.matmul(y, g.constant((rng.standard_normal((64, 64)) / 6).astype(np.float32))))
    g.save(y, "y")
    made = profile(g, [{"x": x}], backend="interpreter")
    costs = sorted(made.losses.values())
    assert len(costs) == 25 and costs[-1] > 3 * costs[-2]
    want = glow.compile(g, backend="interpreter").run({"x": x})["y"]
    found: list[float] = []
    for everything in (False, True):
        module = quantize(g, made, everything=everything)
        kept = _operators(module).count("matmul")
        assert kept == 0 if everything else 1 <= kept <= 7
        found.append(_decibels(want, glow.compile(module, backend="interpreter").run({"x": x})["y"]))
    assert found[0] > found[1] + 6


def test_losses_choose_the_cheapest_layers() -> None:
    """Layers stay float by cost a product, within their parts of all products."""
    sizes = {"a": 1, "b": 4, "c": 40, "d": 55}
    losses = {"a": 1e-2, "b": 1e-3, "c": 9e-4, "d": 1e-5}
    layers = {name: Node() for name in sizes}
    for name, op in layers.items():
        op.attributes[LOSS] = FloatAttr(losses[name], 64)
    chosen = costly_layers([(layers[name], sizes[name]) for name in sizes])
    assert chosen == {layers["a"], layers["b"]}  # "c" would be too much
    assert costly_layers([(Node(), 5), (Node(), 7)]) == set()
    layers["d"].attributes[LOSS] = FloatAttr(1e-2, 64)
    # Where nothing else helps, however much it is.
    chosen = costly_layers([(layers[name], sizes[name]) for name in sizes])
    assert chosen == {layers["a"], layers["b"], layers["d"]}


@pytest.mark.parametrize("wrong", [5, -6])
def test_subscripts_in_the_data_are_of_the_table(wrong: int) -> None:
    """Token numbers that a table does not have, counted from either end."""
    g = glow.GraphBuilder()
    ids = g.placeholder("ids", (4,), "int64")
    rows = g.gather(g.constant(_normal(5, 8)), g.reshape(ids, (2, 2)), axis=0)
    g.save(g.matmul(g.reshape(rows, (4, 8)), g.constant(_normal(8, 3))), "y")
    good = {"ids": np.array([0, 4, -1, -5])}
    quantize(g, [good], backend="interpreter")
    bad = {"ids": np.array([0, 1, wrong, 2])}
    with pytest.raises(glow.GlowError, match=f"'ids' in batch 1 has {wrong}, a subscript of 5 rows"):
        quantize(g, [good, bad], backend="interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layers_that_float_tiles_make_faster(layout: str) -> None:
    """On 16 bits 3 x 3 convolutions of large images stay float; of small ones, with strides, 1 x 1 do not."""
    g = glow.GraphBuilder()

    def shaped(channels: int, *spatial: int) -> tuple[int, ...]:
        return (*spatial, channels) if layout == "NHWC" else (channels, *spatial)

    y = g.placeholder("x", (1, *shaped(16, 24, 24)))
    for kernel, stride in ((3, 1), (1, 1), (3, 2), (3, 1)):
        w, pads = g.constant(_normal(16, *shaped(16, kernel, kernel)) / 12), (kernel // 2,) * 4
        y = g.relu(g.conv(y, w, strides=(stride, stride), pads=pads, layout=layout))
    g.save(y, "y")
    data = [{"x": _normal(1, *shaped(16, 24, 24))} for _ in range(2)]
    for options, kept in (({}, 1), ({"everything": True}, 0)):
        found = _operators(quantize(g, data, precision="int16", **options))  # pyright: ignore
        assert found.count("conv") == kept and found.count("quantized_conv") == 4 - kept
    assert "conv" not in _operators(quantize(g, data))


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["max", "min", "concat"])
def test_choices_between_values_of_different_ranges(choice: str) -> None:
    """Both operands take the result's scale, in the convolutions that make them: no real number is made."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 16, 12, 12))
    small, large = (g.constant(_normal(16, 16, 3, 3) * k, f"w{k}") for k in (0.05, 0.2))
    a, b = g.conv(x, small, pads=(1, 1, 1, 1)), g.conv(x, large, pads=(1, 1, 1, 1))
    chosen = g.concat([a, b], axis=1) if choice == "concat" else getattr(g, choice)(a, b)
    g.save(g.conv(chosen, g.constant(_normal(8, 32 if choice == "concat" else 16, 3, 3) * 0.1, "last")), "y")
    data = [{"x": _normal(1, 16, 12, 12)} for _ in range(4)]
    quantized = quantize(g, data, everything=True)
    made = _operators(quantized)
    assert choice in made and "rescale" not in made and "dequantize" not in made, made
    assert made.count("quantize") == 1
    want, have = (glow.compile(n).run(data[0])["y"] for n in (g, quantized))
    assert _decibels(want, have) > 30
