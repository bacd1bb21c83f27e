"""Layers on 16-bit floats on the CPU: f32 kernels whose results are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_compiler.quantization import convert_floats
from glow_dialects.core.types import Array


def _network(layout: str) -> tuple[glow.GraphBuilder, dict[str, Array]]:
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    last = layout == "NHWC"

    def conv(value: Any, inner: int, out: int, group: int = 1) -> Any:
        kernel = (out, 3, 3, inner) if last else (out, inner, 3, 3)
        w = (rng.standard_normal(kernel) / np.sqrt(9 * inner)).astype(np.float32)
        b = rng.standard_normal(out).astype(np.float32)
        return g.conv(value, g.constant(w), g.constant(b), pads=(1, 1, 1, 1), group=group, layout=layout)

    shape = (2, 12, 12, 3) if last else (2, 3, 12, 12)
    x = g.relu(conv(g.placeholder("x", shape), 3, 24))
    x = g.max_pool(g.hard_swish(conv(x, 1, 24, 24)), kernel=(2, 2), strides=(2, 2), layout=layout)
    y = g.sigmoid(conv(x, 24, 24))
    x = g.reduce_mean(g.add(x, y), axes=(1, 2) if last else (2, 3))
    w = (rng.standard_normal((24, 10)) / 5).astype(np.float32)
    g.save(g.softmax(g.fully_connected(x, g.constant(w), g.constant(np.zeros(10, np.float32)))), "y")
    return g, {"x": rng.standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("to", "tolerance"), [("f16", 2e-3), ("bf16", 2e-2)])
def test_cpu_and_interpreter_agree(to: str, tolerance: float, layout: str) -> None:
    """Sums may be rounded once more or less; nothing else differs, and nothing runs on the host."""
    g, feed = _network(layout)
    module = convert_floats(g, to)
    net = glow.compile(module)
    have, want = net.run(feed)["y"], glow.compile(module, backend="interpreter").run(feed)["y"]
    np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
    exact = glow.compile(g).run(feed)["y"]
    np.testing.assert_allclose(have, exact, rtol=2 * tolerance, atol=2 * tolerance)


@pytest.mark.parametrize("to", ["f16", "bf16"])
def test_variances_stay_wide(to: str) -> None:
    """Mean of squares less square of the mean: it overflows f16, and bf16 holds none of it."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, 512))
    mean = g.reduce_mean(x, axes=(1,), keepdims=True)
    squares = g.reduce_mean(g.mul(x, x), axes=(1,), keepdims=True)
    variance = g.relu(g.sub(squares, g.mul(mean, mean)))
    root = g.sqrt(g.add(variance, g.constant(np.float32(1e-6))))
    g.save(g.div(g.sub(x, mean), root), "y")
    feed = {"x": (np.random.default_rng(0).standard_normal((4, 512)) * 2 + 400).astype(np.float32)}
    exact = glow.compile(g).run(feed)["y"]
    have = glow.compile(convert_floats(g, to)).run(feed)["y"]
    assert np.abs(have - exact).max() < (0.2 if to == "f16" else 1.5)  # x itself is rounded
