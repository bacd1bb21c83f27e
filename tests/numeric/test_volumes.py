"""Convolutions and pools of volumes by those of planes: the same numbers, of every window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.builder import Builder
from glow_dialects.core.types import Array, shape_of
from glow_dialects.ops.module import functions
from glow_passes.autodiff.volumes import planes_form

SHAPE = (2, 4, 5, 6, 7)
LAST = (0, 2, 3, 4, 1)


def whole(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-5, 6, shape).astype(np.float32)


def check(g: glow.GraphBuilder, x: Array) -> None:
    """A graph of one operator whose result is that of planes; no operator of volumes is left."""
    want = glow.compile(g, backend="interpreter").run({"x": x})["y"]
    module = g.module.clone()
    (function,) = functions(module)
    count = 0
    for op in list(function.body.block.ops):
        if (planes := planes_form(op, Builder.before(op))) is not None:
            count += 1
            op.results[0].replace_all_uses_with(planes[0])
            op.detach()
            op.erase()
    assert count == 1
    module.verify()
    left = [op for op in function.walk() if op.name.removeprefix("glow.") in KINDS]
    assert left and all(len(shape_of(op.operands[0])) == 4 for op in left)
    got = glow.compile(module, backend="interpreter").run({"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


KINDS = ("conv", "conv_transpose", "max_pool", "avg_pool")
POOLS: tuple[dict[str, Any], ...] = (
    {"kernel": (2, 3, 2)},
    {"kernel": (3, 2, 2), "strides": (2, 1, 3), "pads": (1, 0, 1, 2, 1, 0)},
    {"kernel": (2, 2, 3), "strides": (1, 2, 1), "pads": (0, 1, 0, 1, 0, 2)},
)


@pytest.mark.parametrize("options", [*POOLS, {"kernel": (2, 2, 2), "dilations": (3, 2, 1)}])
@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pools(kind: str, options: dict[str, Any], layout: str) -> None:
    """Maxima and means, with and without padding, channels first and last."""
    g = glow.GraphBuilder()
    data = whole(0, *SHAPE) if layout == "NCHW" else whole(0, *SHAPE).transpose(LAST)
    x = g.placeholder("x", data.shape)
    g.save(getattr(g, kind)(x, layout=layout, **options), "y")
    check(g, np.ascontiguousarray(data))


CONVOLUTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"pads": (1, 0, 2, 0, 1, 1)},
    {"pads": (0, 1, 0, 2, 0, 0), "strides": (2, 1, 2)},
    {"strides": (3, 2, 1), "pads": (2, 1, 1, 1, 0, 1)},
    {"dilations": (2, 1, 3), "pads": (1, 1, 1, 1, 1, 1)},
    {"group": 2, "dilations": (1, 2, 1), "pads": (1, 1, 1, 0, 0, 0)},
)


@pytest.mark.parametrize("options", CONVOLUTIONS)
@pytest.mark.parametrize(("bias", "layout"), [(False, "NCHW"), (True, "NCHW"), (True, "NHWC")])
def test_convolutions(options: dict[str, Any], bias: bool, layout: str) -> None:
    """Strides, borders, taps that are apart, groups, channels first and last."""
    g = glow.GraphBuilder()
    data, weights = whole(0, *SHAPE), whole(1, 6, 4 // options.get("group", 1), 2, 3, 2)
    if layout == "NHWC":
        data, weights = (np.ascontiguousarray(a.transpose(LAST)) for a in (data, weights))
    x, b = g.placeholder("x", data.shape), g.constant(whole(2, 6), "b") if bias else None
    g.save(g.conv(x, g.constant(weights, "w"), b, layout=layout, **options), "y")
    check(g, data)


TRANSPOSED: tuple[dict[str, Any], ...] = (
    {},
    {"strides": (2, 1, 1)},
    {"strides": (3, 2, 1), "pads": (1, 0, 1, 2, 1, 0)},
    {"strides": (2, 2, 2), "output_pads": (1, 1, 0)},
    {"dilations": (2, 1, 2), "pads": (0, 1, 0, 1, 0, 0)},
    {"group": 2, "strides": (1, 2, 1), "pads": (3, 0, 0, 2, 0, 0)},
    {"strides": (4, 1, 1), "output_pads": (3, 0, 0)},
    {"dilations": (4, 1, 1), "pads": (0, 0, 0, 6, 0, 0)},
)


@pytest.mark.parametrize("options", TRANSPOSED)
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions(options: dict[str, Any], bias: bool) -> None:
    """Planes that several taps meet, gaps between them, ends that are cut off."""
    g = glow.GraphBuilder()
    group = options.get("group", 1)
    x, b = g.placeholder("x", SHAPE), g.constant(whole(2, 6), "b") if bias else None
    g.save(g.conv_transpose(x, g.constant(whole(1, 4, 6 // group, 3, 2, 2), "w"), b, **options), "y")
    check(g, whole(0, *SHAPE))


def test_planes_stay() -> None:
    """What has two axes, or no element, is left as it is."""
    for shape, kernel in (((2, 4, 6, 7), (2, 2)), ((0, 4, 5, 6, 7), (2, 2, 2))):
        g = glow.GraphBuilder()
        g.save(g.relu(g.max_pool(g.placeholder("x", shape), kernel=kernel)), "y")
        (function,) = functions(g.module)
        before = list(function.walk())
        assert all(planes_form(op, Builder.before(op)) is None for op in list(function.body.block.ops))
        assert list(function.walk()) == before
