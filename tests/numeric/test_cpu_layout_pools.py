"""Which pools and reductions stay on blocks of channels; their values stay as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from laid_out import Build, blocked, given, half, laid_out
from xdsl.ir import SSAValue

from glow_dialects.core.types import shape_of, tensor
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp, AvgPoolOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp, MaxPoolOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp

IMAGE, LAST, LINE = (2, 8, 3, 4), (2, 3, 4, 8), (2, 8, 5)
WINDOW: dict[str, Any] = {"kernel": (2, 3), "strides": (1, 2), "dilations": (1, 1), "pads": (1, 0, 0, 2)}
LINES: dict[str, Any] = {"kernel": (3,), "strides": (2,), "dilations": (1,), "pads": (1, 0)}
PAIRS: dict[str, Any] = {"kernel": (2, 2), "strides": (2, 2), "dilations": (1, 1), "pads": (0, 0, 0, 0)}


def largest(g: Graph, x: SSAValue, **more: Any) -> SSAValue:
    """The maximum of windows."""
    return g.b(MaxPoolOp(x, **WINDOW | more))


def mean(g: Graph, x: SSAValue, **more: Any) -> SSAValue:
    """The mean of windows."""
    return g.b(AvgPoolOp(x, **WINDOW | more))


POOLS: dict[str, tuple[Build, str]] = {
    "largest": (lambda g: largest(g, blocked(g, *IMAGE)), "*block *conv *pool *unblock"),
    "largest of a line": (
        lambda g: largest(g, blocked(g, *LINE), **LINES),
        "reshape *block *conv *pool *unblock reshape",
    ),
    "channels last": (
        lambda g: largest(g, blocked(g, *LAST, last=True), layout="NHWC"),
        "*block *conv *pool *unblock",
    ),
    "mean": (lambda g: mean(g, blocked(g, *IMAGE)), "*block *conv *pool *unblock"),
    "mean with padding": (
        lambda g: mean(g, blocked(g, *IMAGE), count_include_pad=True),
        "*block *conv *pool *unblock",
    ),
    "plain": (lambda g: largest(g, given(g, *IMAGE)), "max_pool"),
    "other axes": (
        lambda g: largest(g, blocked(g, 2, 8, 3, 8), layout="NHWC"),
        "*block *conv *unblock max_pool",
    ),
    "dilated": (
        lambda g: largest(g, blocked(g, *IMAGE), dilations=(1, 2), pads=(1, 1, 1, 1)),
        "*block *conv *unblock max_pool",
    ),
    "mean of the image": (
        lambda g: g.b(ReduceMeanOp(blocked(g, *IMAGE), axes=(3, 2), keepdims=True)),
        "*block *conv *pool reshape",
    ),
    "largest of the image": (
        lambda g: g.b(ReduceMaxOp(blocked(g, 2, 12, 3, 4), axes=(2, 3))),
        "*block *conv *pool *unblock reshape",
    ),
    "mean of the line": (
        lambda g: g.b(ReduceMeanOp(blocked(g, *LINE), axes=(2,))),
        "reshape *block *conv *pool reshape",
    ),
    "mean of rows": (
        lambda g: g.b(ReduceMeanOp(blocked(g, *IMAGE), axes=(3,))),
        "*block *conv *unblock reduce_mean",
    ),
    "mean that stays blocked": (
        lambda g: largest(
            g, g.b(ReduceMeanOp(blocked(g, *IMAGE), axes=(2, 3), keepdims=True)), **PAIRS | {"kernel": (1, 1)}
        ),
        "*block *conv *pool *pool reshape",
    ),
    "plain mean": (lambda g: g.b(ReduceMeanOp(given(g, *IMAGE), axes=(2, 3))), "reduce_mean"),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    """Windows without dilation and reductions of a blocked value's whole image."""
    build, nodes = POOLS[name]
    assert laid_out(build) == nodes


def sums(g: Graph, x: SSAValue, *axes: int, **more: Any) -> SSAValue:
    """A sum."""
    return g.b(ReduceSumOp(x, axes=axes, **more))


SUMS: dict[str, tuple[Build, str]] = {
    "of channels": (lambda g: sums(g, blocked(g, *IMAGE), 3, 0, 2), "*block *conv reduce_sum reshape"),
    "of 12 channels": (
        lambda g: sums(g, blocked(g, 2, 12, 3, 4), 0, 2, 3),
        "*block *conv reduce_sum reshape slice",
    ),
    "of channels last": (
        lambda g: sums(g, blocked(g, *LAST, last=True), 0, 1, 2),
        "*block *conv reduce_sum reshape",
    ),
    "of channels of a line": (
        lambda g: sums(g, blocked(g, *LINE), 0, 2),
        "reshape *block *conv reduce_sum reshape",
    ),
    "with axes": (
        lambda g: sums(g, blocked(g, *IMAGE), 0, 2, 3, keepdims=True),
        "*block *conv *unblock reduce_sum",
    ),
    "of an image": (lambda g: sums(g, blocked(g, *IMAGE), 2, 3), "*block *conv *unblock reduce_sum"),
    "plain": (lambda g: sums(g, given(g, *IMAGE), 0, 2, 3), "reduce_sum"),
    "under a predicate": (
        lambda g: sums(g, blocked(g, *IMAGE), 0, 2, 3, predicate=g.input(np.array([True, True]))),
        "*block *conv *unblock reduce_sum",
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str) -> None:
    """Sums of each channel of a blocked value."""
    build, nodes = SUMS[name]
    assert laid_out(build) == nodes


def sizes(kind: type[MaxPoolOp | AvgPoolOp], x: SSAValue, more: dict[str, Any]) -> tuple[int, ...]:
    """The shape of what a pool makes."""
    window = PAIRS | {name: v for name, v in more.items() if name != "predicate"}
    return shape_of(kind(given(Graph(), *shape_of(x)), **window).result)


def largest_back(g: Graph, x: SSAValue, **more: Any) -> SSAValue:
    """The gradient of the maximum of windows."""
    grad = given(g, *sizes(MaxPoolOp, x, more))
    return g.b(MaxPoolBackwardOp(x, grad if x.type == tensor(shape_of(x)) else half(g, grad), **PAIRS | more))


def mean_back(g: Graph, *shape: int, **more: Any) -> SSAValue:
    """The gradient of the mean of windows."""
    x = given(g, *shape)
    return g.b(AvgPoolBackwardOp(given(g, *sizes(AvgPoolOp, x, more)), results=tensor(shape), **PAIRS | more))


EVEN, EVEN_LAST = (2, 8, 4, 6), (2, 4, 6, 8)
GRADIENTS: dict[str, tuple[Build, str]] = {
    "largest": (
        lambda g: largest_back(g, blocked(g, *EVEN)),
        "*block *conv *block *pool_backward *unblock",
    ),
    "largest of a blocked gradient": (
        lambda g: g.b(MaxPoolBackwardOp(blocked(g, *EVEN), blocked(g, 2, 8, 2, 3), **PAIRS)),
        "*block *conv *block *conv *pool_backward *unblock",
    ),
    "largest of other axes": (
        lambda g: g.b(MaxPoolBackwardOp(blocked(g, 2, 8, 4, 8), blocked(g, 2, 8, 2, 4, last=True), **PAIRS)),
        "*block *conv *block *conv *unblock *unblock max_pool_backward",
    ),
    "largest of an input of other axes": (
        lambda g: largest_back(g, blocked(g, 2, 8, 4, 8, last=True)),
        "*block *conv *block *unblock max_pool_backward",
    ),
    "padded, with strides": (
        lambda g: largest_back(g, blocked(g, *EVEN), strides=(1, 2), pads=(1, 0, 0, 1), dilations=(1, 2)),
        "*block *conv *block *pool_backward *unblock",
    ),
    "channels last": (
        lambda g: largest_back(g, given(g, *EVEN_LAST), layout="NHWC"),
        "*block *block *pool_backward *unblock",
    ),
    "few channels last": (
        lambda g: largest_back(g, given(g, 2, 4, 6, 3), layout="NHWC"),
        "*block *block *pool_backward *unblock",
    ),
    "of a plain value": (lambda g: largest_back(g, given(g, *EVEN)), "max_pool_backward"),
    "of float16": (
        lambda g: largest_back(g, half(g, blocked(g, *EVEN))),
        "*block *conv cast cast *unblock max_pool_backward",
    ),
    "mean": (lambda g: mean_back(g, *EVEN), "*block *pool_backward *unblock"),
    "mean with padding": (
        lambda g: mean_back(g, *EVEN, pads=(1, 1, 1, 1), count_include_pad=True),
        "*block *pool_backward *unblock",
    ),
    "mean of few channels": (lambda g: mean_back(g, 2, 7, 4, 6), "avg_pool_backward"),
    "mean of a line": (
        lambda g: mean_back(g, 2, 8, 4, kernel=(2,), strides=(2,), dilations=(1,), pads=(0, 0)),
        "avg_pool_backward",
    ),
    "mean under a predicate": (
        lambda g: mean_back(g, *EVEN, predicate=g.input(np.array([True, True]))),
        "avg_pool_backward",
    ),
    "mean of 13 x 13": (
        lambda g: mean_back(g, 1, 8, 13, 13, kernel=(13, 13)),
        "*block *pool_backward *unblock",
    ),
    "mean of most of an image": (
        lambda g: mean_back(g, 1, 8, 13, 14, kernel=(13, 13)),
        "avg_pool_backward",
    ),
    "largest of 13 x 13": (
        lambda g: largest_back(g, blocked(g, 1, 8, 13, 13), kernel=(13, 13)),
        "*block *conv *unblock max_pool_backward",
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    """Gradients of windows of 2 axes, not too many taps, whose channels fill a block or are last."""
    build, nodes = GRADIENTS[name]
    assert laid_out(build) == nodes
