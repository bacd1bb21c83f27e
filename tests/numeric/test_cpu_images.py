"""Batches in parts: which layers take them, into which runs they go, and that the results stay."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.ir import SSAValue

from glow_backends.cpu.emit.pointwise import Pointwise, Step
from glow_backends.cpu.fused_body import body_of
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.kernels.pool.pool_ops import PoolOp
from glow_backends.cpu.passes import cpu_images
from glow_backends.cpu.passes.cpu_images import best_runs, gain, split, takes_parts
from glow_backends.cpu.passes.cpu_stack import CpuStackPass
from glow_backends.cpu.target import named
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.dialects import context
from glow_dialects.ops.activation import SigmoidOp
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.slice import SliceOp

R = np.random.default_rng(0)
CONV: dict[str, Any] = {"lanes": 8, "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
POOL: dict[str, Any] = {"mode": "max", "kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)}


def given(g: Graph, *shape: int) -> SSAValue:
    """An input."""
    return g.input(R.normal(size=shape).astype(np.float32))


def nodes(g: Graph) -> list[GraphOp]:
    """The nodes of a graph that may take parts."""
    return [op for op in g.function.body.block.ops if isinstance(op, GraphOp) and takes_parts(op)]


def test_best_runs() -> None:
    """The first range has the greatest sum of all; ranges do not meet, and each gains."""
    for _ in range(50):
        gains = R.integers(-4, 5, 9).astype(float).tolist()
        sums = [sum(gains[a:b]) for a, b in combinations(range(len(gains) + 1), 2)]
        runs = best_runs(gains)
        assert max((c for c, _, _ in runs), default=0.0) == max(0.0, *sums)
        assert all(c == sum(gains[a:b]) > 0 for c, a, b in runs)
        assert all(one[2] <= two[1] for one, two in zip(runs, runs[1:], strict=False))
        kept = {i for _, a, b in runs for i in range(a, b)}
        assert all(i in kept for i, v in enumerate(gains) if v > 0), "what gains alone is in a run"
    assert best_runs([]) == best_runs([0.0, -1.0]) == []
    assert best_runs([1.0, -1.0, 2.0]) == [(1.0, 0, 1), (2.0, 2, 3)], "what comes to nothing is not ahead"
    assert best_runs([2.0, -1.0, 3.0, -9.0, 1.0]) == [(4.0, 0, 3), (1.0, 4, 5)]


@pytest.mark.parametrize("part", [1, 2])
def test_split(part: int) -> None:
    """Parts of a batch, one after another: convolutions with bias and residual, a pool, a loop, slices."""
    g = Graph()
    x = given(g, 4, 1, 5, 5, 8)
    w, b = (g.constant(R.normal(size=s).astype(np.float32)) for s in ((8, 8, 1, 1), (8,)))
    y = g.b(PoolOp(g.b(ConvOp(x, w, b, [], None, **CONV)), **POOL))
    # A row, one number an image, and one for all images stand beside.
    z = g.b(AddOp(g.b(SigmoidOp(y)), given(g, 1, 1, 1, 1, 8)))
    z = g.b(AddOp(g.b(AddOp(z, given(g, 4, 1, 1, 1, 1))), given(g)))
    z = g.b(SliceOp.window(g.b(ConcatOp([z, y], axis=1)), (0, 1, 1, 0, 0), (4, 1, 3, 5, 8)))
    g.save(y)
    g.save(z)
    before = g.run()
    CpuStackPass().apply(context(), g.module)
    run = nodes(g)
    assert len(run) == 5
    split(run, 4, part)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-6)
    assert g.ops().count("glow_cpu.pool") == 4 // part
    assert g.ops().count("glow_cpu.stack") == 4 // part


def test_takes_parts() -> None:
    """Layers that make each image of one image, if these are several."""
    g = Graph()
    x, one = given(g, 4, 1, 5, 5, 8), given(g, 1, 1, 5, 5, 8)
    w = given(g, 8, 8, 1, 1)
    known = g.constant(R.normal(size=(8, 8, 1, 1)).astype(np.float32))

    def taken(value: SSAValue) -> int | None:
        assert isinstance(value.owner, GraphOp)
        return takes_parts(value.owner)

    assert taken(g.b(ConvOp(x, known, None, [], None, **CONV))) == 4
    assert taken(g.b(ConvOp(x, w, None, [], None, **CONV))) is None, "weights of another layer"
    assert taken(g.b(PoolOp(x, **POOL))) == 4
    assert taken(g.b(PoolOp(one, **POOL))) is None
    assert taken(g.b(PoolOp(given(g, 2, 1, 5, 5, 8), **POOL))) == 2
    assert taken(g.b(SliceOp.window(x, (0, 0, 1, 0, 0), (4, 1, 3, 5, 8)))) == 4
    for begin, count in ((1, 3), (0, 3), (1, 2)):
        assert taken(g.b(SliceOp.window(x, (begin, 0, 0, 0, 0), (count, 1, 5, 5, 8)))) is None
    turned = SliceOp(x, starts=(0,) * 5, ends=(4, 1, 5, 5, 8), steps=(2, 1, 1, 1, 1))
    assert taken(g.b(turned)) is None
    assert taken(g.b(ConcatOp([x, x], axis=1))) == 4
    assert taken(g.b(ConcatOp([x, x], axis=0))) is None
    assert taken(g.b(SigmoidOp(x))) is None
    made = g.b(SigmoidOp(known))
    assert taken(g.b(ConvOp(x, made, None, [], None, **CONV))) is None, "weights that are computed"
    assert taken(g.b(SliceOp.window(given(g), (), ()))) is None
    for shape, images in (((4,), None), ((4, 8), 4)):
        assert taken(loop(g, *shape)) == images
    assert taken(loop(g, 4, 8, predicate=g.input(np.array(True)))) is None


def loop(g: Graph, *shape: int, **more: Any) -> SSAValue:
    """A loop of one step."""
    x = given(g, *shape)
    body = body_of(Pointwise(1, (Step("exp", (0,)),), (1,), ("f32",)))
    return g.b.insert(StackOp([x], results=[x.type], body=body, **more)).results[0]


def test_parts_that_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all parts that divide a batch, are enough for the threads and few, those that gain most."""
    g = Graph()
    for _ in range(2):
        g.save(g.b(PoolOp(g.b(PoolOp(given(g, 64, 1, 4, 4, 8), **POOL)), **POOL)))
    asked: set[int] = set()

    def gains(op: GraphOp, images: int, part: int, *_: object) -> float:
        asked.add(part)
        return {16: 2.0, 32: 1.0}.get(part, -1.0)

    monkeypatch.setattr(cpu_images, "gain", gains)
    alone = g.b(PoolOp(given(g, 64, 1, 4, 4, 8), **POOL))
    g.save(g.b(SigmoidOp(alone)))  # no neighbour would read the parts
    before = g.run()
    cpu_images.split_batches(g.function, named("znver5", 2), True)
    g.module.verify()
    assert asked == {4, 8, 16, 32}, "at most 16 parts"
    assert g.ops().count("glow_cpu.pool") == 4 * 4 + 1
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("threads", [1, 2])
def test_gain(threads: int) -> None:
    """What no longer leaves the caches, in cycles of memory; nothing where all fits."""
    target, g = named("znver5", threads), Graph()
    cache, costs = target.l2 * threads, target.costs
    rows = cache // (16 * 8 * 4)  # an image of as many bytes as the caches
    large, small = (g.b(PoolOp(given(g, 4, 1, h, 16, 8), **POOL)) for h in (rows, rows // 16))
    assert isinstance(large.owner, GraphOp) and isinstance(small.owner, GraphOp)
    assert gain(small.owner, 4, 1, target, True) == 0
    # 8 caches are read and written; with so many images at a time twice as many, of which one stays.
    for part in (1, 2):
        stayed = 8 * cache * (1 / (2 * part) - 1 / 8)
        want = stayed / costs.bytes_a_cycle * costs.shown_streaming
        np.testing.assert_allclose(gain(large.owner, 4, part, target, True), want, rtol=1e-6)


def test_weights_that_pass_more_often() -> None:
    """A layer whose images fit into the cache, but not its weights, loses by parts, unless it is chosen."""
    g, target = Graph(), named("znver5", 1)
    w = g.constant(np.ones((512, 512, 3, 3), np.float32))
    x = given(g, 4, 32, 7, 7, 16)
    options: dict[str, Any] = {**CONV, "lanes": 16, "pads": (1, 1, 1, 1)}
    direct, other = (
        g.b(ConvOp(x, w, None, [], None, algorithm=a, **options)).owner for a in ("direct", "winograd4")
    )
    assert isinstance(direct, GraphOp) and isinstance(other, GraphOp)
    assert gain(direct, 4, 1, target, True) < 0
    assert gain(other, 4, 1, target, True) == 0
