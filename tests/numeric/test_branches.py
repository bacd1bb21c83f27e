"""Sums of convolutions of one value, compiled, against the same sums in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

torch = pytest.importorskip("torch")
conv2d: Callable[..., Any] = torch.nn.functional.conv2d

RANDOM = np.random.default_rng(0)
X, DENSE, POINT, DEPTH, HALVES, SCALE, BIAS = (
    RANDOM.standard_normal(shape).astype(np.float32)
    for shape in ((2, 8, 9, 10), (8, 8, 3, 3), (8, 8, 1, 1), (8, 1, 3, 3), (8, 4, 3, 3), (8, 1, 1), 8)
)


class Both:
    """Builds a graph and computes the same with PyTorch."""

    def __init__(self) -> None:
        self.graph = glow.GraphBuilder()
        self.x = self.graph.placeholder("x", X.shape)
        self.value = torch.from_numpy(X)

    def conv(self, filter: Any, bias: Any = None, **window: Any) -> tuple[Any, Any]:
        """A convolution of x; `window` in PyTorch's names."""
        pad, stride, spread = (window.get(n, d) for n, d in (("padding", 0), ("stride", 1), ("dilation", 1)))
        known = dict(pads=(pad,) * 4, strides=(stride,) * 2, dilations=(spread,) * 2)
        own = [self.graph.constant(filter), *([self.graph.constant(bias)] if bias is not None else [])]
        made = self.graph.conv(self.x, *own, group=window.get("groups", 1), **known)
        tensors = [None if a is None else torch.from_numpy(a) for a in (filter, bias)]
        return made, conv2d(self.value, *tensors, **window)

    def scaled(self) -> tuple[Any, Any]:
        """x times one number a channel."""
        return self.graph.mul(self.x, self.graph.constant(SCALE)), self.value * torch.from_numpy(SCALE)


CASES: dict[str, Callable[[Both], list[tuple[Any, Any]]]] = {
    "three branches": lambda b: [b.conv(DENSE, BIAS, padding=1), b.conv(POINT), b.scaled()],
    "depthwise in dense": lambda b: [
        b.conv(DENSE, padding=1),
        b.conv(DEPTH, BIAS, padding=1, groups=8),
        (b.x, b.value),
    ],
    "groups": lambda b: [
        b.conv(HALVES, padding=1, groups=2),
        b.conv(DEPTH, padding=1, groups=8),
        b.scaled(),
    ],
    "strides": lambda b: [
        b.conv(HALVES, padding=1, stride=2, groups=2),
        b.conv(DEPTH, padding=1, stride=2, groups=8),
    ],
    "spread": lambda b: [
        b.conv(DENSE, padding=2, dilation=2),
        b.conv(DENSE, padding=1),
        b.conv(POINT, BIAS),
    ],
    "no room": lambda b: [b.conv(DEPTH, padding=1, groups=8), b.conv(POINT)],
}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("case", CASES)
def test_sum(case: str, backend: str) -> None:
    both = Both()
    (total, wanted), *rest = CASES[case](both)
    for made, value in rest:
        total, wanted = both.graph.add(total, made), wanted + value
    both.graph.save(total, "y")
    found = glow.compile(both.graph, backend=backend).run({"x": X})["y"]
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=2e-5)
