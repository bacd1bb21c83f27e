"""Graphs through the CPU backend's layout, fusion and choice of algorithms, against the references."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph, run
from xdsl.context import Context
from xdsl.ir import SSAValue

from glow_backends.base import get_backend
from glow_backends.cpu.kernels.conv import search
from glow_backends.cpu.kernels.conv.choice import choose
from glow_backends.cpu.kernels.conv.conv_direct import DirectConvSpec
from glow_backends.cpu.memory import WeightBlock
from glow_backends.cpu.target import host
from glow_dialects.core.types import Array, shape_of, tensor
from glow_dialects.ops.activation import GeluOp, HardSwishOp, SigmoidOp
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.resize import ResizeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.transpose import TransposeOp
from glow_runtime.compile import compile_module

SAME: dict[str, Any] = {"pads": (1, 1, 1, 1)}


def values(*shape: int, seed: int = 0) -> Array:
    """Uniform values in [-1, 1)."""
    return np.random.default_rng(seed + sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def conv(g: Graph, x: SSAValue, out: int, kernel: int, bias: bool = True, **window: object) -> SSAValue:
    """A convolution with constant weights; `group` is among the window's properties."""
    group = window.get("group", 1)
    assert isinstance(group, int)
    w = g.constant(values(out, shape_of(x)[1] // group, kernel, kernel) / (kernel * 2))
    return g.b(ConvOp(x, w, g.constant(values(out)) if bias else None, **window))


def residual_network(g: Graph) -> SSAValue:
    """First layer, pool, Winograd and 1x1 convolutions, a residual sum, a classifier."""
    x = g.input(values(2, 3, 31, 30))
    x = g.b(ReluOp(conv(g, x, 32, 5, strides=(2, 2), pads=(2, 2, 2, 2))))
    x = g.b(MaxPoolOp(x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    y = g.b(ReluOp(conv(g, x, 32, 3, **SAME)))
    y = g.b(AddOp(conv(g, y, 32, 1), x))
    y = g.b(ReluOp(y))
    mean = g.b(ReduceMeanOp(y, axes=(2, 3), keepdims=False))
    return g.b(FullyConnectedOp(mean, g.constant(values(32, 10)), g.constant(values(10))))


def mobile_block(g: Graph) -> SSAValue:
    """Depthwise convolution, squeeze and excitation, hard swish, channels that fill no block."""
    x = g.input(values(1, 24, 9, 11))
    y = g.b(HardSwishOp(conv(g, x, 40, 1)))
    y = g.b(HardSwishOp(conv(g, y, 40, 3, group=40, **SAME)))
    pooled = g.b(AvgPoolOp(y, kernel=(9, 11)))
    gate = g.b(SigmoidOp(conv(g, g.b(ReluOp(conv(g, pooled, 8, 1))), 40, 1)))
    y = conv(g, g.b(MulOp(y, gate)), 24, 1)
    return g.b(AddOp(y, x))


def joined(g: Graph) -> SSAValue:
    """Concat and slices in whole blocks, batch normalisation before a convolution, padding."""
    x = g.input(values(1, 16, 8, 8))
    a, b = conv(g, x, 32, 1), conv(g, x, 16, 3, **SAME)
    y = g.b(ConcatOp([a, b], axis=1))
    statistics = [g.constant(np.abs(values(48, seed=i)) + 0.5) for i in range(4)]
    y = g.b(ReluOp(g.b(BatchNormOp(y, *statistics, epsilon=1e-3))))
    y = g.b(PadOp(y, pads=(0, 0, 1, 2, 0, 0, 0, 1)))
    half = g.b(SliceOp.window(y, (0, 32, 0, 0), (1, 16, 9, 11)))
    rest = g.b(SliceOp.window(y, (0, 0, 0, 0), (1, 20, 9, 11)))
    return g.b(ConcatOp([half, rest], axis=1))


def interpolated_join(g: Graph) -> SSAValue:
    """Tokens as images, some of them resized, joined for one convolution."""
    parts: list[SSAValue] = []
    for size in (8, 4):
        rows = g.b(MatmulOp(g.input(values(size * size, 12)), g.constant(values(12, 32) / 4)))
        rows = g.b(ReshapeOp(rows, results=tensor((1, size * size, 32))))
        turned = g.b(TransposeOp(rows, permutation=(0, 2, 1)))
        image = g.b(ReshapeOp(turned, results=tensor((1, 32, size, size))))
        if size < 8:
            image = g.b(ResizeOp(image, sizes=(1, 32, 8, 8), scales=(1.0, 1.0, 2.0, 2.0), mode="linear"))
        parts.append(image)
    return g.b(ReluOp(conv(g, g.b(ConcatOp(parts, axis=1)), 20, 1)))


def from_rows(g: Graph) -> SSAValue:
    """Convolutions of what was made with channels last: lines, pixels, and pixels of merged axes."""
    x = g.input(values(2, 12, 20))
    line = g.b(TransposeOp(x, permutation=(0, 2, 1)))
    w = g.constant(values(16, 20, 3) / 6)
    y = g.b(ConvOp(line, w, None, strides=(1,), pads=(1, 1), dilations=(1,)))
    pixels = g.b(ReshapeOp.to(g.b(TransposeOp(x, permutation=(0, 2, 1))), (2, 20, 3, 4)))
    z = g.b(ReshapeOp.to(conv(g, pixels, 16, 3, **SAME), (2, 16, 12)))
    return g.b(AddOp(y, z))


def resized(g: Graph) -> SSAValue:
    """Interpolation between convolutions, by sizes and by scales, channels first and last."""
    y = conv(g, g.input(values(2, 16, 5, 6)), 24, 3, **SAME)
    y = g.b(ResizeOp(y, sizes=(2, 24, 10, 9), mode="linear", scales=(1.0, 1.0, 2.0, 1.5)))
    y = g.b(ReluOp(conv(g, y, 16, 3, **SAME)))
    y = g.b(ResizeOp(y, sizes=(2, 16, 20, 18), coordinate_transformation_mode="asymmetric"))
    last = g.b(TransposeOp(conv(g, y, 20, 1), permutation=(0, 2, 3, 1)))
    return g.b(ResizeOp(last, sizes=(2, 12, 12, 20), mode="cubic"))


def several_filters_a_channel(g: Graph) -> SSAValue:
    """Depthwise convolutions that make two and three channels of each, with stride and without."""
    y = conv(g, g.input(values(2, 16, 9, 10)), 20, 1)
    y = g.b(ReluOp(conv(g, y, 40, 5, group=20, strides=(2, 2), pads=(2, 2, 2, 2))))
    return conv(g, y, 120, 3, group=40, **SAME)


def transposed_in_groups(g: Graph) -> SSAValue:
    """Transposed convolutions of groups: of eight channels, of one, and of channels that fill no block."""
    y = conv(g, g.input(values(2, 16, 5, 6)), 32, 1)
    for group, each, kernel in ((4, 8, 4), (32, 1, 4), (32, 2, 3), (4, 6, 2)):
        inner = shape_of(y)[1]
        w = g.constant(values(inner, each, kernel, kernel) / kernel)
        bias = g.constant(values(group * each))
        y = g.b(ConvTransposeOp(y, w, bias, strides=(2, 1), pads=(1, 0, 1, 1), group=group))
    return y


def phases_apart(g: Graph) -> SSAValue:
    """Transposed convolutions whose phases have windows of their own, one of them without a tap."""
    y = conv(g, g.input(values(2, 16, 5, 6)), 32, 1)
    cases = ((4, (2, 2), (1, 1, 1, 1), 1), (3, (2, 2), (1, 0, 0, 1), 2), (2, (3, 2), (0, 0, 0, 0), 1))
    for kernel, strides, pads, group in cases:
        w = g.constant(values(shape_of(y)[1], 40 // group, kernel, kernel) / kernel)
        window: dict[str, Any] = {"strides": strides, "pads": pads, "group": group}
        y = g.b(ReluOp(g.b(ConvTransposeOp(y, w, g.constant(values(40)), **window))))
    return y


def spanned_axes(g: Graph) -> SSAValue:
    """Filters as high or as wide as their image, with strides and pads along the other axis, and NHWC."""
    x = g.input(values(2, 1, 20, 9))
    y = g.b(ConvOp(x, g.constant(values(24, 1, 20, 3) / 9), g.constant(values(24)), pads=(0, 1, 0, 2)))
    x = g.b(TransposeOp(y, permutation=(0, 2, 3, 1)))
    x = g.b(ReshapeOp(x, results=tensor((2, 2, 10, 12))))
    y = g.b(ConvOp(x, g.constant(values(33, 2, 3, 12) / 9), None, strides=(2, 1), pads=(1, 0, 1, 0)))
    x = g.b(ReshapeOp(g.b(ReluOp(y)), results=tensor((2, 11, 5, 3))))
    return g.b(ConvOp(x, g.constant(values(17, 2, 5, 3) / 6), g.constant(values(17)), layout="NHWC"))


def channels_last(g: Graph) -> SSAValue:
    """NHWC: a convolution of its own layout, a vector of channels, transposes that vanish."""
    x = g.input(values(2, 10, 9, 20))
    w = g.constant(values(33, 3, 3, 20) / 9)
    y = g.b(ConvOp(x, w, g.constant(values(33)), layout="NHWC", strides=(2, 1), pads=(1, 0, 1, 2)))
    y = g.b(MulOp(y, g.constant(values(33))))
    y = g.b(TransposeOp(y, permutation=(0, 3, 1, 2)))
    y = g.b(ReluOp(conv(g, y, 16, 3, **SAME)))
    return g.b(TransposeOp(y, permutation=(0, 2, 3, 1)))


def signal(g: Graph) -> SSAValue:
    """One spatial axis, odd groups, tokens out of channels."""
    x = g.input(values(2, 12, 50))
    w = g.constant(values(40, 12, 3) / 6)
    y = g.b(GeluOp(g.b(ConvOp(x, w, g.constant(values(40)), pads=(1, 1), strides=(2,)))))
    w = g.constant(values(40, 10, 5) / 6)
    y = g.b(ConvOp(y, w, None, pads=(4, 4), dilations=(2,), group=4))
    y = g.b(SubOp(y, g.constant(values(1, 40, 1))))
    return g.b(TransposeOp(y, permutation=(0, 2, 1)))


def tokens(g: Graph) -> SSAValue:
    """Spatial axes merged to tokens, attention with transposed operands, scale and bias."""
    x = g.input(values(1, 3, 16, 16))
    y = conv(g, x, 32, 4, strides=(4, 4))
    y = g.b(ReshapeOp(y, results=tensor((1, 32, 16))))
    y = g.b(TransposeOp(y, permutation=(0, 2, 1)))
    q, k, v = (g.b(BatchMatmulOp(y, g.constant(values(32, 32, seed=i) / 4))) for i in range(3))
    q = g.b(AddOp(q, g.constant(values(32, seed=7))))
    scores = g.b(BatchMatmulOp(q, g.b(TransposeOp(k, permutation=(0, 2, 1)))))
    scores = g.b(SoftmaxOp(g.b(MulOp(scores, g.b.scalar(0.125, scores))), axis=2))
    return g.b(AddOp(g.b(BatchMatmulOp(scores, v)), y))


def weights_at_run_time(g: Graph) -> SSAValue:
    """A filter and a matrix that are inputs: nothing is packed."""
    x, w = g.input(values(1, 8, 6, 6)), g.input(values(16, 8, 3, 3) / 9)
    y = g.b(ReluOp(g.b(ConvOp(x, w, None, **SAME))))
    y = g.b(ReshapeOp(y, results=tensor((16, 36))))
    return g.b(MatmulOp(y, g.input(values(36, 5))))


def few_output_channels(g: Graph) -> SSAValue:
    """Heads of one and three channels, with a stride along columns; transposed convolutions."""
    x = g.input(values(1, 20, 9, 40))
    a = g.b(SigmoidOp(conv(g, x, 1, 3, **SAME)))
    w = g.constant(values(3, 20, 2, 5) / 9)
    b = g.b(ConvOp(x, w, g.constant(values(3)), strides=(2, 2), dilations=(1, 2), pads=(0, 4, 1, 4)))
    up = g.b(ConvTransposeOp(b, g.constant(values(3, 40, 2, 2)), g.constant(values(40)), strides=(2, 2)))
    up = g.b(ReluOp(up))
    up = g.b(ConvTransposeOp(up, g.constant(values(40, 1, 1, 2) / 9), g.constant(values(1)), strides=(1, 2)))
    up = g.b(SliceOp.window(up, (0, 0, 0, 0), (1, 1, 9, 40)))
    y = g.b(AddOp(a, up))
    signal = g.b(ReshapeOp(y, results=tensor((1, 1, 360))))
    return g.b(ConvOp(signal, g.constant(values(1, 1, 32) / 9), None, strides=(2,)))


def overlapping(g: Graph) -> SSAValue:
    """Transposed convolutions whose windows overlap or leave gaps, with steps behind their shuffles."""
    x = g.input(values(2, 6, 5, 7))
    w = g.constant(values(6, 20, 4, 3) / 9)
    window: dict[str, Any] = {"strides": (2, 1), "pads": (1, 1, 1, 1)}
    y = g.b(ConvTransposeOp(x, w, g.constant(values(20)), **window))
    y = g.b(ReluOp(y))
    w = g.constant(values(20, 3, 3, 2) / 9)
    y = g.b(ConvTransposeOp(y, w, None, strides=(2, 3), pads=(1, 0, 1, 0), output_pads=(1, 1)))
    y = g.b(SigmoidOp(y))
    y = g.b(TransposeOp(y, permutation=(0, 2, 3, 1)))
    w = g.constant(values(3, 3, 3, 10) / 9)
    y = g.b(ConvTransposeOp(y, w, None, dilations=(2, 1), pads=(2, 0, 1, 1), layout="NHWC"))
    signal = g.b(ReshapeOp.to(y, (2, 10, prod(shape_of(y)[1:3]))))
    w = g.constant(values(10, 1, 5) / 9)
    return g.b(ConvTransposeOp(signal, w, g.constant(values(1)), strides=(3,), pads=(1, 2)))


def volume(g: Graph) -> SSAValue:
    """Three spatial axes: strides, dilations, pads and groups along each of them."""
    x = g.input(values(2, 6, 7, 9, 8))
    w = g.constant(values(20, 6, 3, 3, 2) / 6)
    y = g.b(ConvOp(x, w, g.constant(values(20)), strides=(2, 1, 2), pads=(1, 1, 0, 1, 2, 1)))
    y = g.b(ReluOp(y))
    w = g.constant(values(8, 10, 2, 1, 3) / 6)
    y = g.b(ConvOp(y, w, None, dilations=(2, 1, 1), group=2))
    y = g.b(TransposeOp(y, permutation=(0, 2, 3, 4, 1)))
    w = g.constant(values(3, 1, 2, 1, 8) / 6)
    return g.b(ConvOp(y, w, None, layout="NHWC"))


def volume_transposed(g: Graph) -> SSAValue:
    """Three spatial axes transposed: overlapping planes, gaps, planes side by side, and NHWC."""
    y = g.input(values(2, 6, 3, 4, 5))
    cases = (
        ((3, 3, 2), (2, 1, 2), (1, 0, 1, 1, 1, 0), (1, 0, 0)),
        ((2, 2, 2), (2, 2, 1), (0,) * 6, (0, 1, 0)),
        ((1, 2, 1), (2, 1, 1), (0,) * 6, (1, 0, 0)),
    )
    for kernel, strides, pads, more in cases:
        w = g.constant(values(shape_of(y)[1], 6, *kernel) / 4)
        window: dict[str, Any] = {"strides": strides, "pads": pads, "output_pads": more}
        y = g.b(ReluOp(g.b(ConvTransposeOp(y, w, g.constant(values(6)), **window))))
    y = g.b(TransposeOp(y, permutation=(0, 2, 3, 4, 1)))
    w = g.constant(values(6, 4, 1, 1, 3) / 6)
    return g.b(ConvTransposeOp(y, w, None, dilations=(2, 1, 1), pads=(1, 0, 0, 2, 0, 0), layout="NHWC"))


def video(g: Graph) -> SSAValue:
    """Three spatial axes and few channels: the planes under the filter are channels."""
    x = g.input(values(2, 3, 8, 9, 7))
    w = g.constant(values(20, 3, 3, 3, 2) / 6)
    window: dict[str, Any] = {"strides": (2, 1, 2), "pads": (1, 1, 0, 2, 2, 1), "dilations": (2, 1, 1)}
    y = g.b(ReluOp(g.b(ConvOp(x, w, g.constant(values(20)), **window))))
    y = g.b(TransposeOp(y, permutation=(0, 2, 3, 4, 1)))
    y = g.b(SliceOp.window(y, (0,) * 5, (*shape_of(y)[:4], 2)))
    return g.b(ConvOp(y, g.constant(values(5, 2, 3, 1, 2) / 3), None, layout="NHWC"))


def large_images(g: Graph) -> SSAValue:
    """Layers that take a batch in parts, with values inside, at the end and before that others read."""
    x = g.input(values(6, 3, 100, 90))
    x = g.b(ReluOp(conv(g, x, 40, 3, **SAME)))
    y = g.b(SigmoidOp(conv(g, x, 40, 1)))
    y = g.b(MulOp(conv(g, y, 40, 3, **SAME), y))
    y = g.b(ConcatOp([y, x], axis=1))
    z = g.b(MaxPoolOp(y, kernel=(2, 2), strides=(2, 2)))
    z = conv(g, z, 48, 1, strides=(2, 2))
    z = g.b(ReduceMeanOp(z, axes=(2, 3), keepdims=True))
    return g.b(MulOp(z, g.b(ReduceMeanOp(y, axes=(1, 2, 3), keepdims=True))))


NETS: list[Callable[[Graph], SSAValue]] = [
    residual_network,
    mobile_block,
    joined,
    from_rows,
    interpolated_join,
    resized,
    several_filters_a_channel,
    transposed_in_groups,
    phases_apart,
    spanned_axes,
    channels_last,
    signal,
    overlapping,
    video,
    tokens,
    weights_at_run_time,
    few_output_channels,
    volume,
    volume_transposed,
    large_images,
]


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS, ids=lambda n: n.__name__)
def test_network(net: Callable[[Graph], SSAValue], monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled program and the rewritten graph's own references agree with the plain graph."""
    monkeypatch.setenv("GLOW_CACHE_DIR", "")
    g = Graph()
    g.save(net(g))
    (want,) = g.run()
    for options in ({}, {"winograd": False}, {"cpu": "haswell"}, {"threads": 3}):
        program = compile_module(g.module, get_backend("cpu", **options), verify=True)
        (got,) = program.run(g.inputs).values()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)
        assert program.report.notes["host instructions"] == 0
    rewritten = g.module.clone()
    for item in get_backend("cpu").graph_passes():
        item.apply(Context(), rewritten)
        rewritten.verify()
    (again,) = run(rewritten, g.inputs)
    np.testing.assert_allclose(again, want, rtol=1e-4, atol=2e-5)


def test_one_conversion_a_border() -> None:
    """A region converts once on entry and once on exit."""
    g = Graph()
    g.save(mobile_block(g))
    for item in get_backend("cpu").graph_passes():
        item.apply(Context(), g.module)
    names = g.ops()
    assert names.count("glow_cpu.block") == names.count("glow_cpu.unblock") == 1
    assert not {"conv", "hard_swish", "sigmoid", "relu"} & set(names)


def test_search_measures_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A measured choice is kept: the second search measures nothing, and chooses the same."""
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path))
    spec = DirectConvSpec(1, 16, 16, (12, 12), (3, 3), pads=(1, 1, 1, 1))
    found = choose(spec, host(), search=True)
    assert found in ("direct", "winograd2", "winograd4")
    monkeypatch.setattr(search, "measured_seconds", None)
    assert choose(spec, host(), search=True) == found


def test_denormal_weights_count_as_zeros() -> None:
    """Products with them are slow, and less than any result shows; the least normal number stays."""
    tiny = np.finfo(np.float32).tiny
    weights = np.tile(np.array([1, tiny, -tiny, 0, -0.0, np.nan, np.inf], np.float32), (20_000, 1)).T
    small = weights.copy()
    small[[3, 4], 15_000] = 1e-40, -1e-45
    block = WeightBlock()
    bits = small.view(np.int32)
    places = [block.place("f", small, normal=True), block.place("kept", small), block.place("i", bits, True)]
    memory = block.build()
    placed, kept, integers = (
        memory[p : p + small.nbytes].view(np.float32).reshape(small.shape) for p in places
    )
    np.testing.assert_array_equal(placed, weights)
    np.testing.assert_array_equal(kept, small)
    np.testing.assert_array_equal(integers.view(np.int32), bits)
