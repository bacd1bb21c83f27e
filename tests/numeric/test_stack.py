"""Operator stacking on random graphs: the same values, fewer loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.utils.exceptions import VerifyException

from glow_backends.base import get_backend
from glow_backends.cpu.ops.stack import StackOp, program_of, steps_attr
from glow_backends.cpu.passes.cpu_stack import CpuStackPass
from glow_dialects.core.types import dtype_of, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp, SigmoidOp, TanhOp
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.reduce import ReduceMaxOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.pipeline import INSTR, LOWER

RNG = np.random.default_rng(4)
QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def build(draw: st.DataObject) -> Graph:
    """Element-wise operators of a few shapes and types, with reductions and transposes between."""
    graph = Graph()
    b = graph.b
    shapes = [(6, 6), (6, 6), (6,), (1, 6), ()]
    values = [graph.input(RNG.uniform(-2, 2, s).astype(np.float32)) for s in shapes]
    values += [b.splat(0.25, tensor((6, 6))), graph.constant(np.float32(1.5))]

    def pick() -> Any:
        return values[draw.draw(st.integers(max(0, len(values) - 7), len(values) - 1))]

    for _ in range(draw.draw(st.integers(2, 14))):
        x, y = pick(), pick()
        square = shape_of(x) == (6, 6)
        match draw.draw(st.sampled_from(["binary", "binary", "unary", "unary", "select", "cast", "break"])):
            case "binary":
                made = b(draw.draw(st.sampled_from([AddOp, SubOp, MulOp, MaxOp]))(x, y))
            case "unary":
                made = b(draw.draw(st.sampled_from([TanhOp, SigmoidOp]))(x))
            case "select":
                made = b(SelectOp(b(CmpGtOp(x, y)), x, y))
            case "cast":
                whole = b(CastOp(b(ClipOp(x, min=-9.0, max=9.0)), results=tensor(shape_of(x), np.int64)))
                made = b(CastOp(whole, results=tensor(shape_of(x))))
            case _:
                made = b(TransposeOp(x, permutation=(1, 0))) if square else x
                if square and draw.draw(st.booleans()):
                    made = b(ReduceMaxOp(x, axes=(1,), keepdims=True))
        values.append(made)
    for value in values[7:][-3:] or values[:1]:
        graph.save(value)
    return graph


@QUICK
@given(st.data())
def test_random_graphs(draw: st.DataObject) -> None:
    """The pass changes no value, nor does the code that is made of its result."""
    graph = build(draw)
    expected = graph.run()
    before = len(graph.ops())
    CpuStackPass().apply(context(), graph.module)
    graph.module.verify()
    assert len(graph.ops()) <= before
    for got, want in zip(graph.run(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    for item in (*LOWER, *INSTR):
        item.apply(context(), graph.module)
    graph.module.verify()
    results = get_backend("cpu").compile(graph.module).run(graph.inputs)
    for got, want in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_loops_are_as_large_as_they_can_be() -> None:
    """A diamond with a broadcast operand is one loop."""
    graph = Graph()
    b, x, v = graph.b, graph.input(np.ones((4, 5))), graph.input(np.ones(5))
    left, right = b(TanhOp(b(AddOp(x, v)))), b(SigmoidOp(x))
    graph.save(b(MulOp(left, right)))
    CpuStackPass().apply(context(), graph.module)
    assert graph.ops() == ["glow_cpu.stack"]


@pytest.mark.parametrize(
    "steps,problem",
    [
        (["%2 = sub %0"], "sub"),
        (["%1 = spin %0"], "no element-wise 'spin'"),
        (["%1 = tanh %7"], "is number %1"),
        (["tanh"], "cannot be read"),
        (["%1 = clip(a) %0"], "parameters"),
    ],
)
def test_steps_that_make_no_sense(steps: list[str], problem: str) -> None:
    """Messages name the step."""
    with pytest.raises(VerifyException, match=problem):
        program_of(steps, ["f32"], [1])


def test_steps_read_back() -> None:
    """Parameters of every kind survive the text."""
    texts = [
        "%1 = clip(-inf, 6.0) %0",
        "%2 = gelu('tanh') %1",
        "%3 = cast %2 : i64",
        "%4 = is_inf(True, False) %0 : i1",
    ]
    program = program_of(texts, ["f32"], [3, 4])
    assert [a.data for a in steps_attr(program)] == texts  # pyright: ignore[reportAttributeAccessIssue]
    assert [program.dtype(o) for o in program.outputs] == ["i64", "i1"]
    assert StackOp.name == "glow_cpu.stack" and dtype_of(tensor((1,))) == np.float32
