"""Passes in random orders: a short hunt, what the hunt tells of a wrong pass, and orders that are refused."""

from __future__ import annotations

from dataclasses import dataclass

import hunt_orders
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.ops.relu import ReluOp
from glow_passes.contract import GraphPass, Level, OrderError
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.instr.share_buffers import ShareBuffersPass
from glow_passes.lower.irgen import IrgenPass
from glow_passes.quantize.exact_quantization import ExactQuantizationPass
from glow_tools.pipelines import parse


@pytest.mark.slow
def test_a_short_hunt() -> None:
    """Some orders, always the same ones."""
    assert hunt_orders.main(["--count", "100", "--seed", "7000", "--jobs", "1"]) == 0


@pytest.mark.slow
def test_a_longer_hunt() -> None:
    """A thousand more."""
    assert hunt_orders.main(["--count", "1000", "--seed", "8000", "--jobs", "1"]) == 0


@dataclass(frozen=True)
class WithoutRelu(GraphPass):
    """relu(x) -> x, which is wrong."""

    name = "glow-test-without-relu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for node in op.walk():
            if isinstance(node, ReluOp):
                node.result.replace_all_uses_with(node.input)


def sample_case(name: str) -> hunt_orders.Case:
    """A sample of a card."""
    made, _ = hunt_orders.graph_of(hunt_orders.SAMPLES[name])
    want = hunt_orders.run_graph(made.function, made.inputs)
    return hunt_orders.Case(name, made.module, made.inputs, want)


@pytest.mark.parametrize("name,order", [("conv_transpose-5", "glow-cpu-layout")])
def test_what_hunts_found(name: str, order: str) -> None:
    """A bias that is filled up to whole vectors, for 24 channels."""
    assert hunt_orders.wrong(sample_case(name), parse(order)) is None


def test_a_wrong_pass_is_found() -> None:
    """On graphs and behind the instructions; only the wrong pass is left of the order."""
    case, bad = sample_case("relu-0"), WithoutRelu()
    assert hunt_orders.wrong(case, [DcePass(), CsePass()]) is None
    for order in ([DcePass(), bad, CsePass()], [bad, *hunt_orders.order_to_plan()]):
        told = hunt_orders.wrong(case, order)
        assert told is not None and "max abs error" in told
        assert hunt_orders.fewest(case, order) == [bad]


@pytest.mark.parametrize("name", ["lstm-4", "round_blocks-0"])
def test_passes_that_no_order_holds(name: str) -> None:
    """Every pass that an order may hold keeps what is rounded; the pass that rounds less is none of them."""
    case = sample_case(name)
    for one in hunt_orders.passes_of(Level.GRAPH):
        assert hunt_orders.wrong(case, [one]) is None, one.name
    assert hunt_orders.wrong(case, [ExactQuantizationPass()]) is not None


@pytest.mark.parametrize("order", [[ShareBuffersPass()], [IrgenPass(), DcePass()]])
def test_orders_that_are_refused(order: list[hunt_orders.ModulePass]) -> None:
    """Instructions before there are any, graphs after they are gone."""
    with pytest.raises(OrderError, match=f"{order[-1].name}.* works on"):
        hunt_orders.wrong(sample_case("relu-0"), order)
