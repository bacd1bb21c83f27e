"""Tables as several: what is spread, and what an index then finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.module import ConstantOp, functions
from glow_dialects.parse import parse_module
from glow_passes.partition.spread import spread


def looked_up(
    table: Array, indices: Array, also: Any = None, axis: int = 0, checked: str = ""
) -> glow.GraphBuilder:
    """y = rows of a table; `also` makes a further output of the table and the indices."""
    g = glow.GraphBuilder()
    t, i = g.constant(table, "t"), g.placeholder("i", indices.shape, indices.dtype)
    y = g.gather(t, i, axis)
    if checked:
        assert isinstance(y.ssa.owner, Operation)
        y.ssa.owner.properties["checked"] = StringAttr(checked)
    g.save(y, "y")
    if also:
        g.save(also(g, t, i), "also")
    return g


@pytest.mark.parametrize("shape", [(10,), (10, 3), (10, 2, 2)], ids=str)
@pytest.mark.parametrize("most", [16, 40, 0])
def test_indices_of_both_ends(shape: tuple[int, ...], most: int) -> None:
    """Every index, from the start and the end, finds the row that it found before."""
    table = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    indices = np.arange(-10, 10)
    g = looked_up(table, indices)
    (function,) = functions(g.module)
    assert spread(function, most) == (table.nbytes > most)
    pieces = [op for op in g.module.ops if isinstance(op, ConstantOp)]
    assert len(pieces) == min(10, -(-table.nbytes // max(most, 1)))
    net = glow.compile(g, backend="interpreter")
    np.testing.assert_array_equal(net.run({"i": indices})["y"], table[indices])


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("most", [4000, 700, 0])
@pytest.mark.parametrize("form", ["floats", "codes", "points"])
def test_matrices_of_experts(form: str, most: int, backend: str) -> None:
    """Rows of every expert have the products that they had before; codes go with their scales."""
    r, experts = np.random.default_rng(0), np.arange(5).repeat(2)
    x, w = r.standard_normal((10, 32)).astype(np.float32), r.standard_normal((5, 7, 32)).astype(np.float32)
    codes = r.integers(0, 256, (5, 7, 16)).astype(np.uint8)
    numbers = r.uniform(0.9, 1.1, (5, 7, 1)).astype(np.float32)

    def graph() -> glow.GraphBuilder:
        g = glow.GraphBuilder()
        arrays = (codes, 0.1 * numbers, 8 * numbers)[: 2 + (form == "points")]
        parts = [g.constant(a, f"part{i}") for i, a in enumerate(arrays)]
        packed = {"bits": 4, "block": 32, "depth": 32, "point": 8.0 * (form == "codes")}
        weights = g.constant(w) if form == "floats" else g.one(DequantizeBlocksOp, *parts, **packed)
        named = g.placeholder("e", (10,), np.int64)
        g.save(g.one(ExpertMatmulOp, g.placeholder("x", x.shape), weights, named), "y")
        return g

    g = graph()
    (function,) = functions(g.module)
    size = w.nbytes if form == "floats" else codes.nbytes + numbers.nbytes * (1 + (form == "points"))
    assert spread(function, most) == (size > most)
    products = [op for op in g.module.walk() if isinstance(op, ExpertMatmulOp)]
    assert len(products) == (1 if size <= most else min(5, -(-size // max(most, 1))))
    feeds = {"x": x, "e": experts}
    made, want = (glow.compile(m, backend=backend).run(feeds)["y"] for m in (g, graph()))
    np.testing.assert_allclose(made, want, atol=1e-6 * np.abs(want).max())


def test_a_table_is_read_twice() -> None:
    """Each lookup has its own reads, of the same pieces."""
    table, indices = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([5, 0, -2])
    g = looked_up(table, indices, lambda g, t, i: g.gather(t, g.neg(i)))
    (function,) = functions(g.module)
    assert spread(function, 24) == 1
    outputs = glow.compile(g, backend="interpreter").run({"i": indices})
    np.testing.assert_array_equal(outputs["y"], table[indices])
    np.testing.assert_array_equal(outputs["also"], table[-indices])


@pytest.mark.parametrize(
    ("table", "axis", "indices", "also"),
    [
        (np.ones((4, 4), np.float32), 0, np.array([1]), lambda g, t, i: g.relu(t)),
        (np.ones((4, 4), np.float32), 1, np.array([1]), None),
        (np.ones((4, 4), np.float32), 0, np.array([1], np.int8), None),
        (np.ones((4, 4), np.float32), 0, np.array([1], np.uint32), None),
        (np.ones((1, 16), np.float32), 0, np.array([0]), None),
        (np.ones(16, np.int32), 0, np.array([0]), lambda g, t, i: g.gather(i, t)),
    ],
    ids=["another reader", "columns", "bytes", "unsigned", "one row", "as indices"],
)
def test_tables_that_stay_whole(table: Array, axis: int, indices: Array, also: Any) -> None:
    g = looked_up(table, indices, also, axis)
    (function,) = functions(g.module)
    before = str(g.module)
    assert spread(function, 63) == 0
    assert str(g.module) == before


def test_tables_without_values_stay_whole() -> None:
    """The file of weights was not loaded."""
    text = """
        glow.constant @t = #glow.resource<"t"> : tensor<4x4xf32>
        glow.placeholder @i input : tensor<2xi64>
        glow.placeholder @y output : tensor<2x4xf32>
        glow.func @main {
          %t = glow.get @t : tensor<4x4xf32>
          %i = glow.get @i : tensor<2xi64>
          %y = glow.gather %t, %i {axis = 0 : i64} : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
          glow.save %y to @y : tensor<2x4xf32>
        }"""
    (function,) = functions(parse_module(text, "tables", context()))
    assert spread(function, 16) == 0


@pytest.mark.parametrize(
    ("checked", "told"),
    [("node 'n'", r"node 'n' \(rows from 2 on\): index"), ("there is none.", "there is none$")],
)
def test_messages(checked: str, told: str) -> None:
    """They name the rows of the piece, unless the text is a whole message."""
    table = np.ones((4, 4), np.float32)
    g = looked_up(table, np.array([0]), checked=checked)
    (function,) = functions(g.module)
    assert spread(function, 32) == 1
    net = glow.compile(g, backend="interpreter")
    with pytest.raises(glow.GlowError, match=told):
        net.run({"i": np.array([4])})
