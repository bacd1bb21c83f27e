"""Which normalisations stay on blocks of channels; their values stay as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from laid_out import Build, blocked, constant, given, half, laid_out
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormOp, BatchNormTrainOp
from glow_dialects.ops.lrn import LrnOp

IMAGE, LINE = (2, 8, 3, 4), (2, 8, 5)


def norm(g: Graph, x: SSAValue, plain: int = 4, **more: Any) -> SSAValue:
    """A normalisation of 8 channels by constants, but for one that is an input."""
    vectors = [constant(g, 8) if i != plain else g.input(np.full(8, 1.5, np.float32)) for i in range(4)]
    return g.b(BatchNormOp(x, *vectors, epsilon=0.5, **more))


def train(g: Graph, x: SSAValue, **more: Any) -> GraphOp:
    """Normalisation of 8 channels by the batch."""
    return g.b.insert(BatchNormTrainOp(x, constant(g, 8), given(g, 8), epsilon=0.5, **more))


def backward(g: Graph, x: SSAValue, grad: SSAValue, **more: Any) -> GraphOp:
    """Its gradient."""
    vectors = [constant(g, 8) for _ in range(3)]
    return g.b.insert(BatchNormBackwardOp(x, *vectors, grad, epsilon=0.5, **more))


STATISTICS: dict[str, tuple[Build, str]] = {
    "channels": (lambda g: norm(g, blocked(g, *IMAGE)), "*block *conv mul add *unblock"),
    "of a line": (lambda g: norm(g, blocked(g, *LINE)), "reshape *block *conv mul add *unblock reshape"),
    "channels last": (
        lambda g: norm(g, blocked(g, 2, 3, 4, 8, last=True), layout="NHWC"),
        "*block *conv mul add *unblock",
    ),
    "plain": (lambda g: norm(g, given(g, *IMAGE)), "batch_norm"),
    "under a predicate": (
        lambda g: norm(g, blocked(g, *IMAGE), predicate=g.input(np.array([True, True]))),
        "*block *conv *unblock batch_norm",
    ),
    "another axis": (
        lambda g: norm(g, blocked(g, 2, 8, 3, 8), layout="NHWC"),
        "*block *conv *unblock batch_norm",
    ),
    "scale at run time": (lambda g: norm(g, blocked(g, *IMAGE), 0), "*block *conv *unblock batch_norm"),
    "variance at run time": (lambda g: norm(g, blocked(g, *IMAGE), 3), "*block *conv *unblock batch_norm"),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_given_statistics(name: str) -> None:
    """Constant statistics of a blocked value's channels are a product and a sum."""
    build, nodes = STATISTICS[name]
    assert laid_out(build) == nodes


TRAINING: dict[str, tuple[Build, str]] = {
    "channels": (lambda g: train(g, blocked(g, *IMAGE)), "*block *conv *batch_norm_train *unblock"),
    "of a line": (
        lambda g: train(g, blocked(g, *LINE)),
        "reshape *block *conv *batch_norm_train *unblock reshape",
    ),
    "channels last": (
        lambda g: train(g, blocked(g, 2, 3, 4, 8, last=True), layout="NHWC"),
        "*block *conv *batch_norm_train *unblock",
    ),
    "plain": (lambda g: train(g, given(g, *IMAGE)), "batch_norm_train"),
    "another axis": (
        lambda g: train(g, blocked(g, 2, 8, 3, 8), layout="NHWC"),
        "*block *conv *unblock batch_norm_train",
    ),
    "another axis of a line": (
        lambda g: train(g, blocked(g, 2, 8, 8), layout="NHWC"),
        "reshape *block *conv *unblock reshape batch_norm_train",
    ),
}


@pytest.mark.parametrize("name", TRAINING)
def test_statistics_of_the_batch(name: str) -> None:
    """Statistics of a blocked value's channels."""
    build, nodes = TRAINING[name]
    assert laid_out(build) == nodes


GRADIENTS: dict[str, tuple[Build, str]] = {
    "channels": (
        lambda g: backward(g, blocked(g, *IMAGE), given(g, *IMAGE)),
        "*block *conv *block *batch_norm_backward *unblock",
    ),
    "of a line": (
        lambda g: backward(g, blocked(g, *LINE), given(g, *LINE)),
        "reshape *block *conv reshape *block *batch_norm_backward *unblock reshape",
    ),
    "channels last": (
        lambda g: backward(g, blocked(g, 2, 3, 4, 8, last=True), given(g, 2, 3, 4, 8), layout="NHWC"),
        "*block *conv *block *batch_norm_backward *unblock",
    ),
    "plain": (lambda g: backward(g, given(g, *IMAGE), given(g, *IMAGE)), "batch_norm_backward"),
    "another axis": (
        lambda g: backward(g, blocked(g, 2, 8, 3, 8), given(g, 2, 8, 3, 8), layout="NHWC"),
        "*block *conv *unblock batch_norm_backward",
    ),
    "another axis of a line": (
        lambda g: backward(g, blocked(g, 2, 8, 8), given(g, 2, 8, 8), layout="NHWC"),
        "reshape *block *conv *unblock reshape batch_norm_backward",
    ),
    "blocks of other axes": (
        lambda g: backward(g, blocked(g, 2, 8, 3, 8), blocked(g, 2, 8, 3, 8, last=True)),
        "*block *conv *block *conv *unblock *unblock batch_norm_backward",
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    """Gradients of normalised values that are blocked."""
    build, nodes = GRADIENTS[name]
    assert laid_out(build) == nodes


LOCAL: dict[str, tuple[Build, str]] = {
    "as many as two blocks": (
        lambda g: g.b(LrnOp(blocked(g, 1, 32, 2, 2), size=17, alpha=0.5)),
        "*block *conv *lrn *unblock",
    ),
    "more": (
        lambda g: g.b(LrnOp(blocked(g, 1, 32, 2, 2), size=18, alpha=0.5)),
        "*block *conv *unblock lrn",
    ),
    "of float16": (
        lambda g: g.b(LrnOp(half(g, blocked(g, 1, 32, 2, 2)), size=5)),
        "*block *conv cast *unblock lrn",
    ),
    "plain": (lambda g: g.b(LrnOp(given(g, 1, 32, 2, 2), size=5)), "lrn"),
    "channels last": (
        lambda g: g.b(LrnOp(blocked(g, 1, 2, 8, 8, last=True), size=5, alpha=0.5)),
        "*block *conv *unblock lrn",
    ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_local_response(name: str) -> None:
    """Sums over neighbouring channels that a block and its neighbours hold."""
    build, nodes = LOCAL[name]
    assert laid_out(build) == nodes
