"""Operator stacking on random graphs: the same values, fewer loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_compiler as glow
from glow_backends.base import get_backend
from glow_backends.cpu.emit.pointwise import Pointwise, Step
from glow_backends.cpu.fused_body import body_of, program_of
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.passes.cpu_stack import MOST_INPUTS, MOST_STEPS, CpuStackPass
from glow_dialects.core.types import UniformQuantizedType, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp, SigmoidOp, TanhOp
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.module import ConstantOp, GetOp, SaveOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp
from glow_dialects.ops.reduce import ReduceMaxOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.cse import CsePass
from glow_passes.pipeline import INSTR, LOWER

RNG = np.random.default_rng(4)
QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def build(draw: st.DataObject) -> Graph:
    """Element-wise operators of a few shapes and types, with reductions and transposes between."""
    graph = Graph()
    b = graph.b
    shapes = [(6, 6), (6, 6), (6,), (1, 6), ()]
    values = [graph.input(RNG.uniform(-2, 2, s).astype(np.float32)) for s in shapes]
    values += [b.splat(0.25, tensor((6, 6))), graph.constant(np.array(1.5, np.float32))]

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


@pytest.mark.slow
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


def _loops(graph: Graph) -> list[StackOp]:
    """The loops, after the pass."""
    return [op for op in graph.function.body.block.ops if isinstance(op, StackOp)]


def test_loops_are_as_large_as_they_can_be() -> None:
    """A diamond with a broadcast operand is one loop."""
    graph = Graph()
    b, x, v = graph.b, graph.input(np.ones((4, 5))), graph.input(np.ones(5))
    left, right = b(TanhOp(b(AddOp(x, v)))), b(SigmoidOp(x))
    graph.save(b(MulOp(left, right)))
    CpuStackPass().apply(context(), graph.module)
    assert graph.ops() == ["glow_cpu.stack"]


def test_programs_and_bodies() -> None:
    """A body made of a program has its steps: parameters of every kind, types that change."""
    steps = (
        Step("clip", (0,), (-np.inf, 6.0)),
        Step("gelu", (1,), ("tanh",)),
        Step("cast", (2,), (True,), "i64"),
        Step("constant", (), (3,), "i64"),
        Step("mul", (3, 4), (), "i64"),
        Step("is_inf", (0,), (True, False), "i1"),
    )
    program = Pointwise(1, steps, (5, 6), ("f32",))
    assert program_of(body_of(program)) == program


def test_number_that_no_f64_holds() -> None:
    """Integers beyond 2^53 are operands of the loop, not numbers in its body."""
    graph = Graph()
    b, x = graph.b, graph.input(np.arange(4))
    graph.save(b(SubOp(b(MulOp(x, graph.constant(np.array(3)))), graph.constant(np.array(2**62 + 1)))))
    (expected,) = graph.run()
    CpuStackPass().apply(context(), graph.module)
    assert graph.ops() == ["glow_cpu.stack"]
    assert len(_loops(graph)[0].operands) == 2
    np.testing.assert_array_equal(graph.run()[0], expected)


def test_equal_bodies_are_one() -> None:
    """Loops are merged where their bodies are equal, whatever values are called, and only there."""
    graph = Graph()
    x = graph.input(np.ones(5, np.float32))
    for op, hint in (("exp", "a"), ("exp", "b"), ("tanh", "c")):
        body = body_of(Pointwise(1, (Step(op, (0,)),), (1,), ("f32",)))
        body.block.args[0].name_hint = hint
        graph.save(graph.b(StackOp([x], results=[x.type], body=body)))
    CsePass().apply(context(), graph.module)
    graph.module.verify()
    assert graph.ops() == ["glow_cpu.stack"] * 2


def test_scales_of_layers_share_code() -> None:
    """What is computed of one element is the same kernel for every layer, whatever the layer's number."""
    kernels: list[int] = []
    for factors in ((0.123,), (0.123, 0.456, 0.789)):
        graph = Graph()
        x = np.array([0.4, 2.5], np.float32)
        for factor in factors:
            ends = [graph.b(TanhOp(graph.input(x[i : i + 1]))) for i in (0, 1)]
            graph.save(graph.b(MulOp(graph.b(SubOp(*ends)), graph.constant(np.float32(factor)))))
        net = glow.compile(graph.module)
        kernels.append(net.report().kernels)
        want = [(np.tanh(x[:1]) - np.tanh(x[1:])) * np.float32(f) for f in factors]
        for got, expected in zip(net.run(graph.inputs).values(), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-6)
    assert kernels == [1, 1]


@pytest.mark.parametrize("more", [0, 1])
def test_most_steps_and_inputs(more: int) -> None:
    """One loop has so many steps, and so many inputs, and no more."""
    for inputs in (False, True):
        graph = Graph()
        x = graph.input(np.ones((4, 5), np.float32))
        for _ in range((MOST_INPUTS - 1 if inputs else MOST_STEPS) + more):
            x = graph.b(AddOp(x, graph.input(np.ones((4, 5), np.float32))) if inputs else TanhOp(x))
        graph.save(x)
        CpuStackPass().apply(context(), graph.module)
        assert len(graph.ops()) == 1 + more


def test_a_path_through_other_loops() -> None:
    """Two operators that meet through a loop around both, and others between, share none."""
    graph = Graph()
    x, y = (graph.input(RNG.normal(size=(6, 6)).astype(np.float32)) for _ in "xy")
    b = graph.b
    first = b(TanhOp(x))
    turned = b(TransposeOp(first, permutation=(1, 0)))
    second = b(SigmoidOp(y))
    graph.save(b(AddOp(first, b(TransposeOp(second, permutation=(1, 0))))))  # a loop with the first one
    graph.save(b(AddOp(second, turned)))  # which the second one needs, and is needed by
    expected = graph.run()
    CpuStackPass().apply(context(), graph.module)
    assert graph.ops().count("glow_cpu.stack") == 1
    for got, want in zip(graph.run(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("name", ["alone", "numbers", "no elements", "predicate", "softmax", "identity"])
def test_no_loop(name: str) -> None:
    """What gains nothing by a loop, or has no steps: the function stays as it was."""
    graph = Graph()
    b, x = graph.b, graph.input(np.ones((0 if name == "no elements" else 2, 3), np.float32))
    unused = graph.constant(np.ones(3, np.float32)).owner
    assert isinstance(unused, GetOp)
    unused.detach()
    unused.erase()
    graph.save(b(TransposeOp(x, permutation=(1, 0))))
    more: dict[str, Any] = {"predicate": graph.input(np.array(True))} if name == "predicate" else {}
    half = b.splat(0.5, tensor((2, 3)))
    made: dict[str, Callable[[], Any]] = {
        "alone": lambda: TanhOp(x),
        "numbers": lambda: TanhOp(half),
        "softmax": lambda: TanhOp(b(SoftmaxOp(x, axis=1))),
        "identity": lambda: TanhOp(b(IdentityOp(x))),
        "no elements": lambda: TanhOp(b(SigmoidOp(x))),
    }
    graph.save(b(made.get(name, lambda: MulOp(x, half, **more))()))
    before = str(graph.module)
    CpuStackPass().apply(context(), graph.module)
    assert str(graph.module) == before


def test_one_operator_with_a_number() -> None:
    """The number is in the body, and its constant is no more; saves stand behind what is computed."""
    graph = Graph()
    b, x = graph.b, graph.input(np.ones((2, 3), np.float32))
    graph.save(b(TransposeOp(x, permutation=(1, 0))))
    graph.save(b(MulOp(x, graph.constant(np.array(0.5, np.float32)))))
    CpuStackPass().apply(context(), graph.module)
    assert graph.ops() == ["transpose", "glow_cpu.stack"]
    assert [len(op.operands) for op in _loops(graph)] == [1]
    assert not [op for op in graph.module.ops if isinstance(op, ConstantOp)]
    kinds = [isinstance(op, SaveOp) for op in graph.function.body.block.ops]
    assert kinds == sorted(kinds)


def test_quantised_steps() -> None:
    """Stored integers are converted, added and converted back in one loop."""
    graph = Graph()
    kind = UniformQuantizedType.of(8, 0.5, 3)
    x = graph.input(RNG.uniform(-9, 9, (4, 5)).astype(np.float32))
    stored = graph.b(QuantizeOp(x, results=tensor((4, 5), kind)))
    total = graph.b(QuantizedAddOp(stored, stored, results=tensor((4, 5), kind)))
    graph.save(graph.b(DequantizeOp(total, results=tensor((4, 5)))))
    (expected,) = graph.run()
    CpuStackPass().apply(context(), graph.module)
    assert graph.ops() == ["glow_cpu.stack"]
    np.testing.assert_array_equal(graph.run()[0], expected)


@pytest.mark.parametrize("kind", ["int64", "bool"])
def test_numbers_that_are_no_floats(kind: str) -> None:
    """A splat in a body is of the element type, whatever its number was; two elements are no number."""
    graph = Graph()
    b, x = graph.b, graph.input(np.array([3, 0], kind))
    made = b((AndOp if kind == "bool" else AddOp)(x, b.splat(1.0, tensor((2,), kind))))
    other = b((AndOp if kind == "bool" else AddOp)(made, graph.constant(np.array([1, 0], kind))))
    graph.save(other)
    (expected,) = graph.run()
    CpuStackPass().apply(context(), graph.module)
    assert [len(op.operands) for op in _loops(graph)] == [2]
    np.testing.assert_array_equal(graph.run()[0], expected)
