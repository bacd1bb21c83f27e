"""The pass that divides functions, what it sees of nodes, and nodes to devices by what these support."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.errors import PartitionError
from glow_dialects.dialects import context
from glow_dialects.ops.module import ConstantOp, functions
from glow_dialects.parse import parse_module
from glow_passes.contract import OrderError, check_order
from glow_passes.partition.nodes import NodeGraph, node_graph
from glow_passes.partition.partition import PartitionPass
from glow_passes.partition.split import partition_of
from glow_passes.partition.support import by_support
from glow_tools.context import tool_context


def layers(count: int, kind: str = "input") -> glow.GraphBuilder:
    """Products with weights of 64 bytes, one after another; the first placeholder has a kind."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 4), kind=kind)
    y = x
    for number in range(count):
        y = g.matmul(y, g.constant(np.eye(4, dtype=np.float32), f"w{number}"))
    if kind == "state":
        g.update(x, y)
    else:
        g.save(y, "y")
    return g


def graph_of(g: glow.GraphBuilder) -> NodeGraph:
    return node_graph(next(functions(g.module)))


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, 1),
        ({"count": 3}, 3),
        ({"memory": 128}, 2),
        ({"memory": "64"}, 4),
        ({"memory": 128, "devices": 2}, 2),
        ({"memory": 128, "count": 3}, 3),
    ],
    ids=str,
)
def test_options(options: dict[str, Any], parts: int) -> None:
    """As many functions as asked for, or as few as the memory allows."""
    g = layers(4)
    PartitionPass(**options).apply(context(), g.module)
    assert len(list(functions(g.module))) == parts


def test_plans_without_functions() -> None:
    """The plan is written to the nodes, the function stays."""
    g = layers(4)
    PartitionPass(count=2, split=False).apply(context(), g.module)
    assert [partition_of(node.op) for node in graph_of(g).nodes] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 128, "devices": 1}, "do not fit: the devices have a device 128; add"),
        ({"memory": 128, "count": 1}, "do not fit in 1 partitions: the devices have a device 128; add"),
    ],
)
def test_options_that_do_not_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        PartitionPass(**options).apply(context(), layers(4).module)


def test_bodies_read_what_is_before_them() -> None:
    """Nodes keep their order around branches, whose bodies read values that are no operands."""
    v = "tensor<2xf32>"
    text = f"""
        glow.placeholder @x input : {v}
        glow.placeholder @c input : tensor<i1>
        glow.placeholder @y output : {v}
        glow.func @main {{
          %x = glow.get @x : {v}
          %c = glow.get @c : tensor<i1>
          %0 = glow.tanh %x : ({v}) -> {v}
          %a = glow.relu %0 : ({v}) -> {v}
          %b = "glow.if"(%c) ({{
            glow.yield %a : {v}
          }}, {{
            glow.yield %x : {v}
          }}) : (tensor<i1>) -> {v}
          %d = glow.add %b, %0 : ({v}, {v}) -> {v}
          glow.save %d to @y : {v}
        }}"""
    module = parse_module(text, "branch", context())
    PartitionPass(count=1).apply(context(), module)
    (function,) = functions(module)
    names = [op.name.removeprefix("glow.") for op in function.body.block.ops]
    assert [n for n in names if n != "get"] == ["tanh", "relu", "if", "add", "save"]


def test_bodies_of_mlir_are_refused() -> None:
    """They have no names by which parts could hand values on."""
    module = parse_module("func.func @f() { func.return }", "bodies", tool_context())
    with pytest.raises(OrderError, match="glow-partition works on graphs"):
        check_order(module, [PartitionPass()])


def test_only_large_tables_are_spread() -> None:
    """By the memory of a partition, where there is a bound."""
    for memory, tables in ((0, ["t"]), (64, ["t"]), (63, ["t_0", "t_1"])):
        g = glow.GraphBuilder()
        table = g.constant(np.ones((2, 8), np.float32), "t")
        g.save(g.gather(table, g.placeholder("i", (2,), np.dtype(np.int64))), "y")
        PartitionPass(memory=memory).apply(context(), g.module)
        assert sorted(op.sym_name.data for op in g.module.ops if isinstance(op, ConstantOp)) == tables


def test_readers_and_writers_of_a_state_stay_together() -> None:
    """It has one place; an input, which nobody writes, may be read anywhere."""
    assert [set(node.held) for node in graph_of(layers(2, "state")).nodes] == [{"x"}, set(), {"x"}]
    assert [set(node.held) for node in graph_of(layers(2)).nodes] == [set(), set(), {"y"}]


def test_nodes_go_to_the_first_device_that_runs_them() -> None:
    """In as few parts as hand values forward: two that need nothing are in one."""
    g = glow.GraphBuilder()
    a, b = g.relu(g.placeholder("a", (2,))), g.relu(g.placeholder("b", (2,)))
    g.save(g.relu(g.add(a, b)), "y")

    def runs(*names: str) -> Any:
        return lambda op: op.name in (*names, "glow.save")

    plan = by_support(graph_of(g), [runs("glow.relu"), runs("glow.add", "glow.relu")])
    assert plan == [(0, 0), (0, 0), (1, 1), (2, 0), (2, 0)]
    with pytest.raises(PartitionError, match="no device supports node .*add"):
        by_support(graph_of(g), [runs("glow.relu")])
