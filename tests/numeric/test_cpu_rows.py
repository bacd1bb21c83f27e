"""glow-cpu-rows moves whole rows exactly where an index repeats along its row, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from glow_backends.cpu.passes.cpu_rows import CpuRowsPass
from glow_dialects.core.types import Array, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, SubOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp

Indices = Callable[[Graph], SSAValue]


def whole(*numbers: int) -> Array:
    """Indices."""
    return np.array(numbers, np.int64)


def repeated(g: Graph, numbers: Array, *shape: int) -> SSAValue:
    """An input, expanded."""
    return g.b(ExpandOp(g.input(numbers), results=tensor(shape, i64)))


def column(g: Graph, width: int = 4) -> SSAValue:
    """Indices 2, 0, 1, each along its row."""
    return repeated(g, whole(2, 0, 1).reshape(3, 1), 3, width)


REPEATED: dict[str, Indices] = {
    "expanded": column,
    "column added": lambda g: g.b(AddOp(column(g), g.input(whole(1, 2, 0).reshape(3, 1)))),
    "one number added": lambda g: g.b(AddOp(column(g), g.input(whole(1).reshape(1, 1)))),
    "scalar added": lambda g: g.b(AddOp(column(g), g.input(np.array(1, np.int64)))),
    "splat taken away": lambda g: g.b(SubOp(column(g), g.b.splat(-2, tensor((3, 4), i64)))),
    "clipped": lambda g: g.b(ClipOp(column(g), min=1.0, max=4.0)),
    "two elements a row": lambda g: column(g, 2),
    "in three axes": lambda g: repeated(g, whole(2, 0, 1).reshape(3, 1, 1), 3, 2, 2),
    "one row": lambda g: repeated(g, whole(3).reshape(1, 1), 1, 4),
}
VARIED: dict[str, Indices] = {
    "given": lambda g: g.input(np.arange(12).reshape(3, 4) % 5),
    "same in each row": lambda g: repeated(g, whole(2, 0, 1, 4).reshape(1, 4), 3, 4),
    "same in each row of as many": lambda g: repeated(g, whole(2, 0, 1), 3, 3),
    "row added, of as many": lambda g: g.b(AddOp(column(g, 3), g.input(whole(0, 1, 2).reshape(1, 3)))),
    "elements added": lambda g: g.b(AddOp(column(g), g.input(np.arange(12).reshape(3, 4) % 3))),
    "expanded to what it is": lambda g: repeated(g, np.arange(12).reshape(3, 4) % 5, 3, 4),
    "sums along the row": lambda g: g.b(CumsumOp(repeated(g, whole(1, 0, 1).reshape(3, 1), 3, 4), axis=1)),
    "in one axis": lambda g: g.input(whole(2, 0, 1)),
    "one element a row": lambda g: g.input(whole(2, 0, 1).reshape(3, 1)),
}


def moved(indices: Indices, scatter: bool, columns: int | None = None, axis: int = 0) -> list[str]:
    """The operators after the pass, which leaves the results as they were."""
    g = Graph()
    where = indices(g)
    sizes = shape_of(where)
    size = (5, *sizes[1:-1], columns or sizes[-1]) if len(sizes) > 1 else (5,)
    data = np.random.default_rng(0).normal(size=size).astype(np.float32)
    if scatter:
        updates = g.input(np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes))
        g.save(g.b(ScatterElementsOp(g.input(data), where, updates, axis=axis, reduction="add")))
    else:
        g.save(g.b(GatherElementsOp(g.input(data), where, axis=axis)))
    before = g.run()
    CpuRowsPass().apply(context(), g.module)
    np.testing.assert_array_equal(g.run(), before)
    g.module.verify()
    return g.ops()


@pytest.mark.parametrize("scatter", [False, True])
@pytest.mark.parametrize("name", REPEATED)
def test_rows(name: str, scatter: bool) -> None:
    """One index a row: rows are moved."""
    ops = moved(REPEATED[name], scatter)
    assert ("scatter_nd" if scatter else "gather") in ops


@pytest.mark.parametrize("scatter", [False, True])
@pytest.mark.parametrize("name", VARIED)
def test_elements(name: str, scatter: bool) -> None:
    """Indices that differ along a row, or rows of one element: elements are moved."""
    ops = moved(VARIED[name], scatter)
    assert ("scatter_elements" if scatter else "gather_elements") in ops


@pytest.mark.parametrize("scatter", [False, True])
def test_parts_of_rows(scatter: bool) -> None:
    """Indices for fewer columns than the data has, or into another axis, move no whole rows."""
    assert ("scatter_elements" if scatter else "gather_elements") in moved(column, scatter, columns=6)
    assert ("scatter_elements" if scatter else "gather_elements") in moved(column, scatter, axis=1)
