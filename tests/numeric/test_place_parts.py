"""Parts in place of copies: random graphs of slices and concatenations keep their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_backends.base import get_backend
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.passes.cpu_place_parts import CpuPlacePartsPass
from glow_dialects.core.types import shape_of
from glow_dialects.dialects import context
from glow_dialects.instr.memory import instr_functions
from glow_dialects.ops.activation import TanhOp
from glow_dialects.ops.arithmetic import AddOp, SubOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.reduce import ReduceMaxOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.unary_math import ExpOp, NegOp
from glow_passes.instr.plan_memory import PlanMemoryPass
from glow_passes.instr.share_buffers import ShareBuffersPass
from glow_passes.lower.irgen import IrgenPass
from glow_passes.pipeline import INSTR, LOWER

RNG = np.random.default_rng(9)


def build(draw: st.DataObject) -> Graph:
    """Rows of 16 numbers, joined, cut and computed with; some results are inputs or used twice."""
    graph = Graph()
    b = graph.b
    values: list[Any] = [graph.input(RNG.normal(size=(n, 16)).astype(np.float32)) for n in (1, 2, 4)]
    values.append(graph.constant(RNG.normal(size=(2, 16)).astype(np.float32)))

    def pick() -> Any:
        return values[draw.draw(st.integers(0, len(values) - 1))]

    for _ in range(draw.draw(st.integers(2, 12))):
        x = pick()
        match draw.draw(st.sampled_from(["concat", "concat", "slice", "tanh", "row"])):
            case "concat":
                made = b(ConcatOp([x, *(pick() for _ in range(draw.draw(st.integers(0, 2))))], axis=0))
            case "slice":
                rows = shape_of(x)[0]
                start = draw.draw(st.integers(0, rows - 1))
                made = b(SliceOp.window(x, (start, 0), (draw.draw(st.integers(1, rows - start)), 16)))
            case "tanh":
                made = b(TanhOp(x))
            case _:
                made = b(AddOp(x, b(ReduceMaxOp(pick(), axes=(0,), keepdims=True))))
        if shape_of(made)[0] < 100:
            values.append(made)
    for value in values[-4:]:
        graph.save(value)
    return graph


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_random_graphs(draw: st.DataObject) -> None:
    """Every level verifies, and the outputs are those of the references."""
    graph = build(draw)
    expected = graph.run()
    backend = get_backend("cpu", threads=draw.draw(st.sampled_from([1, 2])))
    for item in (*LOWER, *backend.instr_passes(), *INSTR):
        item.apply(context(), graph.module)
        graph.module.verify()
    results = backend.compile(graph.module).run(graph.inputs)
    for got, want in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_dense_block() -> None:
    """Each layer reads all results so far and adds one: no row is copied."""
    graph = Graph()
    b, x = graph.b, graph.b(TanhOp(graph.input(RNG.normal(size=(1, 16)).astype(np.float32))))
    for _ in range(5):
        peak = b(ReduceMaxOp(x, axes=(0,), keepdims=True))
        x = b(ConcatOp([x, b(TanhOp(peak))], axis=0))
    graph.save(x)
    expected = graph.run()
    backend = CpuBackend()
    for item in (*LOWER, *backend.instr_passes(), *INSTR):
        item.apply(context(), graph.module)
    names = {op.name for op in instr_functions(graph.module)[0].block.ops}
    assert not names & {"glow_instr.concat", "glow_instr.copy"}
    results = backend.compile(graph.module).run(graph.inputs)
    np.testing.assert_allclose(next(iter(results.values())), expected[0], rtol=1e-5)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_any_order(draw: st.DataObject) -> None:
    """The passes on instructions keep values in any order: a buffer that is shared holds others later."""
    graph = build(draw)
    expected = graph.run()
    backend = get_backend("cpu")
    *instr, plan = INSTR
    for item in (*LOWER, *draw.draw(st.permutations([*backend.instr_passes(), *instr])), plan):
        item.apply(context(), graph.module)
        graph.module.verify()
    results = backend.compile(graph.module).run(graph.inputs)
    for got, want in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("part", ["slice", "concat"])
def test_shared_before(part: str) -> None:
    """A buffer that another result is written over is neither viewed, nor a part of one that lives on."""
    graph = Graph()
    b, x = graph.b, graph.input(RNG.normal(size=(4, 16)).astype(np.float32))
    first = b(ReluOp(x))
    if part == "slice":
        kept = b(SliceOp.window(first, (0, 0), (2, 16)))
        other = b(SliceOp.window(b(ExpOp(b(NegOp(first)))), (2, 0), (2, 16)))
    else:
        kept = b(ConcatOp([first, x], axis=0))
        other = b(ConcatOp([b(ExpOp(b(NegOp(first)))), x], axis=0))
    graph.save(b(SubOp(other, kept)))
    expected = graph.run()
    for item in (IrgenPass(), ShareBuffersPass(), CpuPlacePartsPass(), PlanMemoryPass()):
        item.apply(context(), graph.module)
        graph.module.verify()
    results = get_backend("cpu").compile(graph.module).run(graph.inputs)
    np.testing.assert_allclose(next(iter(results.values())), expected[0], rtol=1e-5)
