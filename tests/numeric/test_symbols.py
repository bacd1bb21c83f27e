"""Constants of a module: which hold one value, which are equal, and what new ones are called."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import f16, f32, f64

from glow_dialects.core.types import Array, tensor, tensor_of
from glow_dialects.dialects import context
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.module import ConstantOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_passes.graph.cse import CsePass
from glow_passes.graph.symbols import Symbols, uniform_value


@pytest.mark.parametrize(
    "array,value",
    [
        (np.ones(1), 1),
        (np.full((2, 3), 0.1, np.float32), float(np.float32(0.1))),
        (np.array([True, True]), 1),
        (np.array([7, 7, 7]), 7),
        (np.broadcast_to(np.float32(3), (4, 5)), 3),
        (np.full(3, 2, ml_dtypes.bfloat16), 2),
        (np.array([1, 2.0]), None),
        (np.array([1, 2.0, 1]), None),
        (np.array([1, 1, 2.0]), None),
        (np.zeros(0), None),
        (np.full(3, np.nan), None),
        (np.full(3, np.inf), None),
        (np.full(3, 2**53 + 1), None),
        (np.full(3, 1 + 0j), None),
        (np.array([0.0, -0.0]), None),
        (np.array([-0.0, 0.0, -0.0], np.float32), None),
        (np.zeros(3), 0),
        (np.zeros(3, np.int32), 0),
        (np.full(3, -0.0, np.float16), -0.0),
    ],
)
def test_uniform_value(array: Array, value: float | None) -> None:
    """The one value, with its sign; none where a float cannot say it."""
    have = uniform_value(array)
    assert have == value and (have is None) == (value is None)
    assert have is None or value is None or math.copysign(1, have) == math.copysign(1, value)


LONG = np.arange(100, dtype=np.float32)
OTHER = LONG.copy()
OTHER[1] = 5
TWOS = np.broadcast_to(np.float32(2), (100,))
NEARLY = TWOS.copy()
NEARLY[1] = 3
SIGNS = np.array([0.0, 1.0], np.float32)


@pytest.mark.parametrize(
    "first,second,count",
    [
        (LONG, LONG.copy(), 1),
        (LONG, OTHER, 2),
        (LONG, LONG.reshape(10, 10), 2),
        (np.arange(2, dtype=np.int32), np.arange(2, dtype=np.int32).view(np.float32), 2),
        (np.array([np.nan, 1]), np.array([np.nan, 1]), 1),
        (SIGNS, SIGNS * [-1, 1], 2),
        (np.zeros((0, 3)), np.zeros((0, 3)), 1),
        (np.array([True, False]), np.array([True, False]), 1),
        (np.full(40, 2.0), np.full(40, 2.0), 1),
        (np.full(40, 2.0), np.full(40, 3.0), 2),
        (np.full(1, 2.0), np.full(1, 3.0), 2),
        (TWOS, np.broadcast_to(np.float32(2), (100,)), 1),
        (TWOS, TWOS.copy(), 1),
        (TWOS, NEARLY, 2),
        (NEARLY, TWOS, 2),
    ],
)
def test_equal_constants(first: Array, second: Array, count: int) -> None:
    """Equal bits of equal types and shapes are one constant; every output stays what it was."""
    g = Graph()
    for array in (first, second):
        g.save(g.constant(array))
    CsePass().apply(context(), g.module)
    g.module.verify()
    assert sum(isinstance(op, ConstantOp) for op in g.module.ops) == count
    for have, want in zip(g.run(), (first, second), strict=True):
        assert have.dtype == want.dtype and have.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "kinds,count",
    [([f16, f16], 1), ([f16, f64], 2)],
)
def test_equal_nodes(kinds: list[Any], count: int) -> None:
    """Results of different types are different nodes."""
    g = Graph()
    x = g.input(LONG)
    for kind in kinds:
        g.save(g.b(CastOp(x, results=tensor((100,), kind))))
    CsePass().apply(context(), g.module)
    assert len(g.ops()) == count


def test_equal_nodes_of_other_properties() -> None:
    """Sums along other axes, and of other tensors, stay."""
    g = Graph()
    x, y = (g.input(LONG.reshape(10, 10)) for _ in range(2))
    for value, axis in ((x, 0), (x, 1), (y, 0), (x, 0)):
        g.save(g.b(ReduceSumOp(value, axes=(axis,))))
    CsePass().apply(context(), g.module)
    assert g.ops() == ["reduce_sum"] * 3


def test_names() -> None:
    """A number follows where a name is taken, the next one that is free."""
    g = Graph()
    symbols = Symbols(g.module)
    for hint in ("w", "w_2", "w", "w", "w", "v"):
        symbols.add(LONG, tensor_of(LONG), hint)
    names = ["w", "w_2", "w_1", "w_3", "w_4", "v"]
    assert list(symbols.table) == ["main", *names] and symbols.inserted == 6
    assert [op.sym_name.data for op in g.module.ops if isinstance(op, ConstantOp)] == names[::-1]
    assert symbols.sweep() == 6 and list(symbols.table) == ["main"]


def test_swept() -> None:
    """What is read stays."""
    g = Graph()
    kept = g.constant(LONG)
    g.save(kept)
    symbols = Symbols(g.module)
    symbols.add(OTHER, tensor((100,), f32), "other")
    assert symbols.sweep() == 1
    np.testing.assert_array_equal(g.run()[0], LONG)
