"""Every graph pass leaves the results of random graphs as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from glow_dialects.core.types import shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp, SigmoidOp, TanhOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from glow_dialects.ops.compare import CmpGtOp, CmpLeOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.logic import NotOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.unary_math import AbsOp, ExpOp, NegOp
from glow_passes import passes_of
from glow_passes.graph import OPTIMIZE, OPTIMIZE_LOWERED
from glow_passes.graph.bind_sizes import BindSizesPass
from glow_passes.graph.rebatch import RebatchPass

CTX = context()
Make = Callable[[Any, Graph, Any], SSAValue]

SHAPES = ((2, 3, 4), (3, 4), (4,), (1, 1), (3, 1), ())


def _unary(op: Any) -> Make:
    return lambda draw, g, pick: g.b(op(pick()))


def _fitting(pick: Any, count: int = 2) -> list[SSAValue]:
    """Values that broadcast together, not too large."""
    values = [pick() for _ in range(count)]
    try:
        shape = np.broadcast_shapes(*map(shape_of, values))
    except ValueError:
        return [values[0]] * count
    return values if np.prod(shape) < 10000 else [values[0]] * count


def _binary(op: Any) -> Make:
    return lambda draw, g, pick: g.b(op(*_fitting(pick)))


def _clip(draw: Any, g: Graph, pick: Any) -> SSAValue:
    low, high = sorted(draw(st.tuples(st.sampled_from([-2.0, 0.0, 0.5]), st.sampled_from([1.0, 6.0]))))
    return g.b(ClipOp(pick(), min=low, max=high))


def _power(draw: Any, g: Graph, pick: Any) -> SSAValue:
    exponent = draw(st.sampled_from([0.5, 1.0, 2.0, 3.0]))
    return g.b(PowOp(g.b(AbsOp(pick())), g.constant(np.array(exponent, np.float32))))


def _select(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x, y = _fitting(pick)
    test = g.b(draw(st.sampled_from([CmpGtOp, CmpLeOp]))(x, y))
    if draw(st.booleans()):
        test = g.b(NotOp(test))
    return g.b(SelectOp(test, x, y))


def _shifted_quotient(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x, y = _fitting(pick)
    return g.b(DivOp(x, g.b(AddOp(g.b(AbsOp(y)), g.constant(np.array(1, np.float32))))))


def _transpose(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    return g.b(TransposeOp(x, permutation=draw(st.permutations(range(len(shape_of(x)))))))


def _reshape(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    size = int(np.prod(shape_of(x)))
    shapes = [(size,), (1, size), (size, 1), (2, size // 2), (size // 4, 4), (2, 3, 4), (3, 4), (1,), ()]
    shape = draw(st.sampled_from([s for s in shapes if int(np.prod(s)) == size]))
    return g.b(ReshapeOp.to(x, shape))


def _concat(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    if not shape_of(x):
        return x
    parts = [x, g.b(NegOp(x)), *([x] if draw(st.booleans()) else [])]
    return g.b(ConcatOp(parts, axis=draw(st.integers(0, len(shape_of(x)) - 1))))


def _slice(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    bounds = [
        draw(st.sampled_from([(0, n, 1), (n // 2, n, 1), (0, n, 2), (n - 1, -1, -1)])) for n in shape_of(x)
    ]
    starts, ends, steps = ([b[i] for b in bounds] for i in range(3))
    return g.b(SliceOp(x, starts=starts, ends=ends, steps=steps))


def _spread(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    if draw(st.booleans()):
        return g.b(TileOp(x, repeats=draw(st.tuples(*[st.integers(1, 2) for _ in shape_of(x)]))))
    return g.b(ExpandOp(x, results=tensor((2, *shape_of(x)))))


def _insert(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    whole = g.b(FlipOp(x, axes=draw(st.sampled_from([(), tuple(range(len(shape_of(x))))]))))
    return g.b(InsertOp(x, whole, starts=[0] * len(shape_of(x))))


def _reduce(draw: Any, g: Graph, pick: Any) -> SSAValue:
    x = pick()
    op = draw(st.sampled_from([ReduceSumOp, ReduceMeanOp, ReduceMaxOp]))
    axes = draw(st.lists(st.integers(0, max(0, len(shape_of(x)) - 1)), unique=True))
    return g.b(op(x, axes=axes if shape_of(x) else [], keepdims=draw(st.booleans())))


#: Functions that make operands of a size fit for another go; sizes grow with expand and tile.
MOVES: tuple[Make, ...] = (_transpose, _reshape, _concat, _slice, _spread, _insert, _reduce)

MENU: tuple[Make, ...] = (
    *(_unary(op) for op in (ReluOp, NegOp, AbsOp, SigmoidOp, TanhOp)),
    *(_binary(op) for op in (AddOp, SubOp, MulOp, MaxOp, MinOp)),
    lambda draw, g, pick: g.b(ExpOp(g.b(TanhOp(pick())))),
    _clip,
    _power,
    _select,
    _shifted_quotient,
    *MOVES,
)


@st.composite
def graphs(draw: Any) -> Graph:
    """A few inputs and constants (often 0, 1, uniform or scalar), a dozen nodes, two outputs."""
    g = Graph()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    values: list[SSAValue] = [g.input(rng.uniform(-2, 2, s).astype(np.float32)) for s in SHAPES[:4]]
    for _ in range(draw(st.integers(1, 4))):
        shape = draw(st.sampled_from(SHAPES))
        kind = draw(st.sampled_from(["random", "zero", "one", "two"]))
        fill = {"zero": 0.0, "one": 1.0, "two": 2.0}.get(kind)
        array = rng.uniform(-2, 2, shape) if fill is None else np.full(shape, fill)
        values.append(g.constant(array.astype(np.float32)))
    for _ in range(draw(st.integers(2, 12))):
        values.append(draw(st.sampled_from(MENU))(draw, g, lambda: draw(st.sampled_from(values))))
    for value in values[-2:]:
        g.save(value)
    return g


def check(graph: Graph, passes: tuple[Any, ...]) -> None:
    """The module verifies and computes the same after `passes`."""
    before = graph.run()
    module = graph.module.clone()
    for item in passes:
        item.apply(CTX, module)
        module.verify()
    for expected, actual in zip(before, run(module, graph.inputs), strict=True):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-4)


SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.slow
@SETTINGS
@given(graphs())
def test_optimize_keeps_results(graph: Graph) -> None:
    check(graph, OPTIMIZE)


@pytest.mark.slow
@SETTINGS
@given(graphs())
def test_optimize_lowered_keeps_results(graph: Graph) -> None:
    check(graph, OPTIMIZE_LOWERED)


#: All but what gives the inputs other shapes.
SAME_SHAPES = [p for p in passes_of("graph") if p not in (BindSizesPass, RebatchPass)]


@pytest.mark.parametrize("made", SAME_SHAPES, ids=lambda p: p.name)
@settings(SETTINGS, max_examples=15)
@given(graphs())
def test_pass_alone_keeps_results(made: Any, graph: Graph) -> None:
    check(graph, (made(),))
