"""What is carried to blocks of channels ahead of a convolution; the results stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.ir import SSAValue

from glow_backends.cpu.passes.cpu_layout import CpuLayoutPass
from glow_dialects.core.types import QuantizedArray, UniformQuantizedType, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import SigmoidOp
from glow_dialects.ops.byte_scale import ByteScaleOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.quantize import DequantizeOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.resize import ResizeOp

R = np.random.default_rng(0)
Build = Callable[[Graph], SSAValue]


def given(g: Graph, *shape: int, dtype: str = "float32") -> SSAValue:
    """An input."""
    return g.input(R.normal(size=shape).astype(dtype))


def conv(g: Graph, x: SSAValue, **more: Any) -> SSAValue:
    """A convolution of one pixel each."""
    last, group = more.get("layout") == "NHWC", more.get("group", 1)
    inner = shape_of(x)[3 if last else 1] // group
    w = R.normal(size=(16, 1, 1, inner) if last else (16, inner, 1, 1)).astype(np.float32)
    return g.b(ConvOp(x, g.constant(w), None, **more))


def joined(g: Graph, axis: int, *shapes: tuple[int, ...]) -> SSAValue:
    """Inputs joined along an axis."""
    return g.b(ConcatOp([given(g, *s) for s in shapes], axis=axis))


def resized(g: Graph, channels: int) -> SSAValue:
    """Rows and columns interpolated."""
    sizes, scales = (1, channels, 8, 8), (1.0, 1.0, 2.0, 2.0)
    return g.b(ResizeOp(given(g, 1, channels, 4, 4), sizes=sizes, scales=scales, mode="linear"))


def read(g: Graph) -> int:
    """The rank of what a join or interpolation makes after the pass; the results stay as they were."""
    before = g.run()
    CpuLayoutPass("haswell").apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    (op,) = (o for o in g.function.body.block.ops if o.name in ("glow.concat", "glow.resize"))
    return len(shape_of(op.results[0]))


BLOCKS = ((1, 8, 4, 4), (1, 16, 4, 4))
CASES: dict[str, tuple[Build, dict[str, Any], bool]] = {
    "whole blocks": (lambda g: joined(g, 1, *BLOCKS), {}, True),
    "parts of blocks": (lambda g: joined(g, 1, (1, 12, 4, 4), (1, 4, 4, 4)), {}, False),
    "rows": (lambda g: joined(g, 2, (1, 8, 2, 4), (1, 8, 2, 4)), {}, False),
    "for groups": (lambda g: joined(g, 1, *BLOCKS), {"group": 8}, False),
    "channels last": (lambda g: joined(g, 1, *BLOCKS), {"layout": "NHWC"}, False),
    "interpolated": (lambda g: resized(g, 8), {}, True),
    "few channels": (lambda g: resized(g, 7), {}, False),
}


@pytest.mark.parametrize("name", CASES)
def test_ahead_of_a_convolution(name: str) -> None:
    """Joins of whole blocks and interpolations that a convolution of one group reads are made of blocks."""
    build, window, blocked = CASES[name]
    g = Graph()
    g.save(conv(g, build(g), **window))
    assert read(g) == (5 if blocked else 4)


def test_ahead_of_lines() -> None:
    """Joins of signals stay as they are."""
    g = Graph()
    x = joined(g, 1, (1, 8, 4), (1, 16, 4))
    g.save(g.b(ConvOp(x, g.constant(R.normal(size=(16, 24, 1)).astype(np.float32)), None)))
    assert read(g) == 3


@pytest.mark.parametrize("width", [8, 16])
def test_stored_integers(width: int) -> None:
    """Bytes are unsigned in blocks; others are as they were."""
    g = Graph()
    kind, weights = UniformQuantizedType.of(width, 0.5, 3), UniformQuantizedType.of(8, 0.25)
    x = g.input(QuantizedArray.of(R.integers(-128, 128, (1, 8, 4, 4)), kind))
    w = g.constant(QuantizedArray.of(R.integers(-128, 128, (8, 8, 1, 1)), weights))
    window: dict[str, Any] = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    y = g.b(QuantizedConvOp(x, w, None, results=tensor((1, 8, 4, 4), kind), **window))
    g.save(g.b(DequantizeOp(y, results=tensor((1, 8, 4, 4)))))
    before = g.run()
    CpuLayoutPass("haswell").apply(context(), g.module)
    g.module.verify()
    np.testing.assert_array_equal(g.run()[0], before[0])
    assert ("glow_cpu.quantized_conv" in g.ops()) == (width == 8)


@pytest.mark.parametrize("channels", [16, 12])
def test_scale_of_bytes(channels: int) -> None:
    """It reads blocks where all lanes are channels: what an activation makes of others does not count."""
    g = Graph()
    w, bias = R.normal(size=(channels, 3, 1, 1)), R.normal(size=channels) - 20
    y = g.b(
        ConvOp(given(g, 1, 3, 5, 5), g.constant(w.astype(np.float32)), g.constant(bias.astype(np.float32)))
    )
    scaled = g.b.insert(ByteScaleOp(g.b(SigmoidOp(y))))
    for result in scaled.results:
        g.save(result)
    before = g.run()
    CpuLayoutPass("haswell").apply(context(), g.module)
    g.module.verify()
    (op,) = (o for o in g.function.body.block.ops if isinstance(o, ByteScaleOp))
    assert len(shape_of(op.input)) == (5 if channels == 16 else 4)
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4)
