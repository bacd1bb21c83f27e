"""Sums of convolutions of one value, compiled, against the same sums in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_passes.graph.branches import BranchesPass

torch = pytest.importorskip("torch")
conv2d: Callable[..., Any] = torch.nn.functional.conv2d
pad_: Callable[..., Any] = torch.nn.functional.pad

RANDOM = np.random.default_rng(0)
X, DENSE, POINT, DEPTH, HALVES, SCALE, BIAS, WIDE, SMALL, LARGE = (
    RANDOM.standard_normal(shape).astype(np.float32)
    for shape in (
        *((2, 8, 9, 10), (8, 8, 3, 3), (8, 8, 1, 1), (8, 1, 3, 3), (8, 4, 3, 3), (8, 1, 1), 8),
        *((8, 8, 5, 5), (8, 8, 2, 2), (8, 8, 5, 6)),
    )
)


class Both:
    """Builds a graph and computes the same with PyTorch."""

    def __init__(self) -> None:
        self.graph = glow.GraphBuilder()
        arrays = (X, X[::-1].copy())
        self.inputs = [
            (self.graph.placeholder(name, X.shape), torch.from_numpy(a))
            for name, a in zip("xz", arrays, strict=True)
        ]
        self.data = dict(zip("xz", arrays, strict=True))
        self.x, self.value = self.inputs[0]

    def conv(self, filter: Any, bias: Any = None, source: int = 0, **window: Any) -> tuple[Any, Any]:
        """A convolution of an input; `window` in PyTorch's names, with `begins` and `ends` of its padding.

        `last`: channels stand last, in the input, in the filter and in the result.
        """
        pad, stride, spread = (window.pop(n, d) for n, d in (("padding", 0), ("stride", 1), ("dilation", 1)))
        begins, ends = window.pop("begins", (pad, pad)), window.pop("ends", (pad, pad))
        groups, last = window.pop("groups", 1), window.pop("last", False)
        x, value = self.inputs[source]
        known = dict(pads=(*begins, *ends), strides=(stride,) * 2, dilations=(spread,) * 2)
        turned = np.ascontiguousarray(np.moveaxis(filter, 1, -1)) if last else filter
        own = [self.graph.constant(turned), *([self.graph.constant(bias)] if bias is not None else [])]
        made = self.graph.conv(x, *own, group=groups, layout="NHWC" if last else "NCHW", **known)
        tensors = [None if a is None else torch.from_numpy(a) for a in (filter, bias)]
        value = value.permute(0, 3, 1, 2) if last else value
        value = pad_(value, (begins[1], ends[1], begins[0], ends[0]))
        value = conv2d(value, *tensors, stride=stride, dilation=spread, groups=groups)
        return made, value.permute(0, 2, 3, 1) if last else value

    def turned(self, filter: Any) -> tuple[Any, Any]:
        """A transposed convolution of x with a filter of 3 x 3."""
        made = self.graph.conv_transpose(self.x, self.graph.constant(filter), pads=(1,) * 4)
        return made, torch.nn.functional.conv_transpose2d(self.value, torch.from_numpy(filter), padding=1)

    def scaled(self, source: int = 0, shared: bool = False) -> tuple[Any, Any]:
        """An input times one number a channel; `shared`: which is an output of its own, too."""
        x, value = self.inputs[source]
        made = self.graph.mul(x, self.graph.constant(SCALE))
        if shared:
            self.graph.save(made, "product")
        return made, value * torch.from_numpy(SCALE)


#: How many operators the pass leaves of a sum, and its terms.
CASES: dict[str, tuple[int, Callable[[Both], list[tuple[Any, Any]]]]] = {
    "three branches": (1, lambda b: [b.conv(DENSE, BIAS, padding=1), b.conv(POINT), b.scaled()]),
    "two biases": (1, lambda b: [b.conv(DENSE, BIAS, padding=1), b.conv(POINT, BIAS[::-1].copy())]),
    "depthwise in dense": (
        1,
        lambda b: [b.conv(DENSE, padding=1), b.conv(DEPTH, BIAS, padding=1, groups=8), (b.x, b.value)],
    ),
    "groups": (
        1,
        lambda b: [b.conv(HALVES, padding=1, groups=2), b.conv(DEPTH, padding=1, groups=8), b.scaled()],
    ),
    "strides": (
        1,
        lambda b: [
            b.conv(HALVES, padding=1, stride=2, groups=2),
            b.conv(DEPTH, padding=1, stride=2, groups=8),
        ],
    ),
    "spread": (
        3,  # the dilated one, which has room for the point, and a sum with the dense one
        lambda b: [
            b.conv(DENSE, padding=2, dilation=2),
            b.conv(DENSE, padding=1),
            b.conv(POINT, BIAS),
        ],
    ),
    "a point in a spread one": (
        1,
        lambda b: [b.conv(DENSE, padding=2, dilation=2), b.conv(POINT, BIAS)],
    ),
    "places between those of a spread one": (
        3,
        lambda b: [b.conv(DENSE, begins=(1, 1), ends=(3, 3), dilation=2), b.conv(POINT)],
    ),
    "taps between those of a spread one": (
        3,
        lambda b: [b.conv(DENSE, padding=2, dilation=2), b.conv(SMALL, ends=(1, 1))],
    ),
    "within": (1, lambda b: [b.conv(WIDE, padding=2), b.conv(DENSE, padding=1)]),
    "no room": (3, lambda b: [b.conv(DEPTH, padding=1, groups=8), b.conv(POINT)]),
    "before its begin": (3, lambda b: [b.conv(DENSE, ends=(2, 2)), b.conv(SMALL, begins=(1, 1))]),
    "behind its end": (3, lambda b: [b.conv(DENSE, begins=(2, 2)), b.conv(SMALL, ends=(1, 1))]),
    "other strides": (3, lambda b: [b.conv(LARGE), b.conv(POINT, stride=2)]),
    "other inputs": (3, lambda b: [b.conv(DENSE, padding=1), b.conv(POINT, source=1)]),
    "another input's factor": (3, lambda b: [b.conv(DENSE, padding=1), b.scaled(source=1)]),
    "a factor that is read elsewhere": (3, lambda b: [b.conv(DENSE, padding=1), b.scaled(shared=True)]),
    "transposed ones": (3, lambda b: [b.turned(DENSE), b.turned(DENSE[::-1].copy())]),
    "a transposed one": (3, lambda b: [b.conv(DENSE, padding=1), b.turned(DENSE)]),
    "some of them": (
        3,
        lambda b: [b.conv(DENSE, padding=1), b.conv(POINT), b.conv(DENSE, source=1, padding=1)],
    ),
}


def summed(case: str) -> tuple[Both, Any]:
    """The sum of the terms of a case, and what it is."""
    both = Both()
    (total, wanted), *rest = CASES[case][1](both)
    for made, value in rest:
        total, wanted = both.graph.add(total, made), wanted + value
    both.graph.save(total, "y")
    return both, wanted


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("case", CASES)
def test_sum(case: str, backend: str) -> None:
    """Merged or not, it is what it was."""
    both, wanted = summed(case)
    found = glow.compile(both.graph, backend=backend).run(both.data)["y"]
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("case", CASES)
def test_what_is_merged(case: str) -> None:
    """By the pass alone: so many operators are left, and the interpreter gives the same for them."""
    both, wanted = summed(case)
    module = both.graph.module
    BranchesPass().apply(context(), module)
    module.verify()
    nodes = [
        op for op in both.graph.function.walk() if isinstance(op, ConvOp | ConvTransposeOp | AddOp | MulOp)
    ]
    assert len(nodes) == CASES[case][0], [op.name for op in nodes]
    found = glow.compile(module, backend="interpreter").run(both.data)["y"]
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("smaller", [POINT, DENSE])
def test_channels_that_stand_last(smaller: Any) -> None:
    """Filters in their order; one of another order of channels stays beside it."""
    for other, left in ((True, 1), (False, 3)):
        both = Both()
        x = np.random.default_rng(1).standard_normal((2, 8, 8, 8)).astype(np.float32)
        both.inputs = [(both.graph.placeholder("square", x.shape), torch.from_numpy(x))]
        side = smaller.shape[-1] // 2
        terms = [
            both.conv(WIDE, BIAS, padding=2, last=True),
            both.conv(smaller, padding=side, last=other),
        ]
        both.graph.save(both.graph.add(terms[0][0], terms[1][0]), "y")
        BranchesPass().apply(context(), both.graph.module)
        both.graph.module.verify()
        nodes = [op for op in both.graph.function.walk() if isinstance(op, ConvOp | AddOp)]
        assert len(nodes) == left
        found = glow.compile(both.graph, backend="interpreter").run({**both.data, "square": x})["y"]
        wanted = terms[0][1] + terms[1][1]
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_a_product_that_makes_channels() -> None:
    """One channel times a number for each of eight is no diagonal of a filter."""
    both = Both()
    x = np.random.default_rng(1).standard_normal((2, 1, 9, 10)).astype(np.float32)
    both.inputs = [(both.graph.placeholder("one", x.shape), torch.from_numpy(x))]
    terms = [both.conv(DEPTH, padding=1), both.scaled()]
    both.graph.save(both.graph.add(terms[0][0], terms[1][0]), "y")
    found = glow.compile(both.graph, backend="interpreter").run({**both.data, "one": x})["y"]
    np.testing.assert_allclose(found, (terms[0][1] + terms[1][1]).numpy(), rtol=1e-4, atol=2e-5)
