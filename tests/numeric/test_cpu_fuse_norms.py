"""What joins a normalisation of training, and what does not: the results stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.norm.batch_norm_ops import BatchNormBackwardOp, BatchNormTrainOp
from glow_backends.cpu.passes.cpu_fuse_norms import CpuFuseNormsPass
from glow_dialects.core.types import shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, PowOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp

R = np.random.default_rng(0)
SHAPE = (2, 1, 3, 3, 8)
Build = Callable[[Graph, SSAValue], SSAValue]


def given(g: Graph, *shape: int) -> SSAValue:
    """An input."""
    return g.input(R.uniform(0.5, 1.5, shape).astype(np.float32))


def norm(g: Graph, x: SSAValue | None = None, **more: Any) -> SSAValue:
    """A normalisation of channels in a block."""
    operands = (x or given(g, *SHAPE), given(g, 8), given(g, 8), [])
    return g.b.insert(BatchNormTrainOp(*operands, **more)).results[0]


def fused(g: Graph) -> list[str]:
    """The operators after the pass, which leaves the results as they were."""
    before = g.run()
    CpuFuseNormsPass().apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
    return [op.removeprefix("glow_cpu.") for op in g.ops()]


JOINED: dict[str, Build] = {
    "one operand": lambda g, y: g.b(ReluOp(y)),
    "with numbers": lambda g, y: g.b(ClipOp(y, min=0.7, max=1.1)),
    "left": lambda g, y: g.b(AddOp(y, given(g, *SHAPE))),
    "right of a sum": lambda g, y: g.b(AddOp(given(g, *SHAPE), y)),
    "left of a difference": lambda g, y: g.b(SubOp(y, given(g, *SHAPE))),
    "two": lambda g, y: g.b(SubOp(g.b(ReluOp(y)), given(g, *SHAPE))),
}
APART: dict[str, Build] = {
    "right of a difference": lambda g, y: g.b(SubOp(given(g, *SHAPE), y)),
    "a vector beside": lambda g, y: g.b(AddOp(y, given(g, 1, 1, 1, 1, 8))),
    "integers": lambda g, y: g.b(CastOp(y, results=tensor(shape_of(y), i32))),
    "a condition": lambda g, y: g.b(SelectOp(g.b(CmpGtOp(given(g, *SHAPE), y)), y, given(g, *SHAPE))),
    "no step of an epilogue": lambda g, y: g.b(PowOp(y, given(g, *SHAPE))),
    "no element-wise operator": lambda g, y: g.b(SoftmaxOp(y, axis=4)),
    "the same on both sides": lambda g, y: g.b(AddOp(y, y)),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(name: str) -> None:
    """An element-wise operator on the result alone is done where that is written; epsilon stays."""
    g = Graph()
    g.save(JOINED[name](g, norm(g, epsilon=0.5)))
    assert fused(g) == ["batch_norm_train"]


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    """Operands in the other order, of other shapes or types, or read twice: the operator stays."""
    g = Graph()
    g.save(APART[name](g, norm(g)))
    count = len(g.ops())
    assert len(fused(g)) == count > 1


def test_read_twice() -> None:
    """A result that is an output too is written as it is."""
    g = Graph()
    y = norm(g)
    g.save(y)
    g.save(g.b(ReluOp(y)))
    assert fused(g) == ["batch_norm_train", "relu"]


def test_statistics() -> None:
    """What follows the mean is not what follows the result."""
    g = Graph()
    op = g.b.insert(BatchNormTrainOp(given(g, *SHAPE), given(g, 8), given(g, 8), []))
    g.save(g.b(ReluOp(op.results[1])))
    g.save(op.results[0])
    assert fused(g) == ["batch_norm_train", "relu"]


@pytest.mark.parametrize("swapped", [False, True])
def test_two_norms(swapped: bool) -> None:
    """A sum of two joins the later one, which may need the earlier one's statistics."""
    g = Graph()
    first = g.b.insert(BatchNormTrainOp(given(g, *SHAPE), given(g, 8), given(g, 8), []))
    second = g.b.insert(BatchNormTrainOp(given(g, *SHAPE), first.results[1], given(g, 8), []))
    sides = [first.results[0], second.results[0]]
    g.save(g.b(AddOp(*sides[::-1] if swapped else sides)))
    assert fused(g) == ["batch_norm_train", "batch_norm_train"]
    early, late = (op for op in g.function.body.block.ops if isinstance(op, BatchNormTrainOp))
    assert list(late.extras) == [early.result] and not early.extras


def test_statistics_read_between() -> None:
    """What reads the statistics ahead of the operator comes behind the normalisation still."""
    g = Graph()
    op = g.b.insert(BatchNormTrainOp(given(g, *SHAPE), given(g, 8), given(g, 8), []))
    g.save(g.b(ReluOp(op.results[1])))
    g.save(g.b(AddOp(op.results[0], given(g, *SHAPE))))
    assert fused(g) == ["batch_norm_train", "relu"]


def test_predicate() -> None:
    """An operator that is wanted only in places stays."""
    g = Graph()
    y = norm(g)
    where = g.b(CmpGtOp(given(g, *SHAPE), given(g, *SHAPE)))
    g.b.insert(op := ReluOp(y, predicate=where))
    g.save(op.results[0])
    CpuFuseNormsPass().apply(context(), g.module)
    assert "relu" in g.ops()


def backward(g: Graph, grad: SSAValue, gate: SSAValue | None = None) -> None:
    """The gradient of a normalisation, its results saved."""
    operands = (given(g, *SHAPE), given(g, 8), given(g, 8), given(g, 8), grad, gate)
    for result in g.b.insert(BatchNormBackwardOp(*operands, epsilon=0.5)).results:
        g.save(result)


def relu_gradient(g: Graph, shape: tuple[int, ...] = SHAPE, bound: float = 0.0) -> SSAValue:
    """select(y > bound, dy, 0)."""
    zero = g.b.splat(0.0, tensor((1,) * 5))
    y = g.input(R.uniform(-1, 1, SHAPE).astype(np.float32))
    test = g.b(CmpGtOp(y, g.b.splat(bound, tensor((1,) * 5))))
    return g.b(SelectOp(test, given(g, *shape), zero))


def gates(g: Graph) -> int:
    """How many gradients have a gate after the pass."""
    fused(g)
    return sum(
        isinstance(op, BatchNormBackwardOp) and op.gate is not None for op in g.function.body.block.ops
    )


def test_gate() -> None:
    """A relu's gradient ahead becomes the gate; epsilon stays."""
    g = Graph()
    backward(g, relu_gradient(g))
    assert gates(g) == 1


def test_no_gate() -> None:
    """Gradients that are no relu's, are read twice, or have one number for many elements stay."""
    g = Graph()
    twice = relu_gradient(g)
    for grad in (given(g, *SHAPE), twice, relu_gradient(g, bound=0.25), relu_gradient(g, (1, 1, 1, 1, 8))):
        backward(g, grad)
    g.save(twice)
    assert gates(g) == 0


def test_one_gate() -> None:
    """A gradient that has its gate keeps it."""
    g = Graph()
    gate = g.input(R.uniform(-1, 1, SHAPE).astype(np.float32))
    backward(g, relu_gradient(g), gate)
    fused(g)
    assert "select" in g.ops()
