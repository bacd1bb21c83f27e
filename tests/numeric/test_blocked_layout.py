"""A backend's blocked layout: the same numbers, by conversions at the borders of regions alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.passes import ModulePass

import glow_compiler as glow
from glow_backends.base import Backend, Program
from glow_backends.interpreter.backend import InterpreterBackend
from glow_backends.layout import LayoutPass
from glow_dialects.core.blocks import Blocked, block_channels, unblock_channels
from glow_dialects.core.graph_op import GraphOp, PureOp, graph_op
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import functions
from glow_passes.graph.layout import BlockedLayout, Region

LANES = 4


@graph_op
class PointConvOp(PureOp):
    """A 1x1 convolution of blocked values."""

    name = "blocks.conv"
    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        batch, _, *size, lanes = shape_of(self.input)
        outs = shape_of(self.filter)[0]
        return [tensor((batch, -(-outs // lanes), *size, lanes), element_of(self.input))]

    def reference(self, result: Array, input: Array, filter: Array) -> None:
        x = unblock_channels(input, filter.shape[1])
        result[...] = block_channels(np.einsum("nchw,oc->nohw", x, filter[:, :, 0, 0]), input.shape[-1])


class Layout(BlockedLayout):
    """Blocks of four for 1x1 convolutions; joins are blocked before them where those read them."""

    def rule(self, kind: type[GraphOp]) -> Callable[[Any, Region], bool] | None:
        return point_conv if kind is ConvOp else None

    def wanted(self, op: Operation) -> Sequence[SSAValue]:
        return op.operands[:1] if isinstance(op, ConvOp) else ()

    def early(self, op: GraphOp) -> bool:
        return op.name == "glow.concat"


def point_conv(op: ConvOp, region: Region) -> bool:
    """conv(x, w) -> blocks.conv(block(x), w)"""
    form = region.blocked(op.input, op.layout == "NHWC")
    if form is None or shape_of(op.filter)[2:] != (1, 1) or op.bias is not None:
        return False
    new = region.add(PointConvOp(form.value, region.plain(op.filter)))
    region.remember(op.result, Blocked(new, shape_of(op.filter)[0], form.rank, form.last))
    return True


class BlocksBackend(Backend):
    """Programs of the interpreter, whose convolutions are on blocks."""

    name = "blocks"

    def supports(self, op: GraphOp) -> bool:
        return op.INSTR is not None or op.VIEW

    def blocked_layout(self) -> BlockedLayout:
        return Layout(LANES)

    def graph_passes(self) -> Sequence[ModulePass]:
        return (LayoutPass(self),)

    def compile(self, module: Any, function: str = "main") -> Program:
        return InterpreterBackend().compile(module, function)


def operators(g: glow.GraphBuilder) -> Counter[str]:
    """How many nodes of each kind the pass leaves."""
    module = g.module.clone()
    LayoutPass(BlocksBackend()).apply(context(), module)
    return Counter(op.name for f in functions(module) for op in f.walk())


def filters(g: glow.GraphBuilder, *shape: int) -> Any:
    """Random weights."""
    return g.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def agree(g: glow.GraphBuilder, x: Array) -> None:
    """The backend and the interpreter give the same outputs, but for the order of sums."""
    want = glow.compile(g, backend="interpreter").run({"x": x})["y"]
    np.testing.assert_allclose(glow.compile(g, backend=BlocksBackend()).run({"x": x})["y"], want, 1e-5, 1e-5)


@pytest.mark.parametrize("channels", [8, 6])
def test_a_region_converts_at_its_borders(channels: int) -> None:
    """Through element-wise nodes, slices, pads, joins and resizes no value becomes plain."""
    x = np.random.default_rng(0).standard_normal((2, 5, 4, 4)).astype(np.float32)
    g = glow.GraphBuilder()
    y = g.conv(g.placeholder("x", x.shape), filters(g, channels, 5, 1, 1), None)
    y = g.mul(g.relu(y), filters(g, 1, channels, 1, 1))
    y = g.pad(y, pads=(0, 0, 1, 0, 0, 0, 0, 1))
    y = g.concat([g.conv(y, filters(g, 4, channels, 1, 1), None), y], axis=1)
    y = g.slice(y, starts=(0, 4, 0, 0), ends=(2, 4 + channels, 5, 4), steps=(1, 1, 1, 2))
    g.save(g.conv(y, filters(g, 3, channels, 1, 1), None), "y")
    agree(g, x)
    found = operators(g)
    assert found["blocks.conv"] == 3 and found["glow.transpose"] == 2  # one into blocks, one out of them


def test_a_join_is_blocked_before_it() -> None:
    """What only convolutions read is joined in blocks."""
    x = np.random.default_rng(0).standard_normal((1, 8, 4, 4)).astype(np.float32)
    g = glow.GraphBuilder()
    value = g.placeholder("x", x.shape)
    y = g.concat([value, g.softmax(value, axis=3)], axis=1)
    g.save(g.conv(y, filters(g, 4, 16, 1, 1), None), "y")
    agree(g, x)
    module = g.module.clone()
    LayoutPass(BlocksBackend()).apply(context(), module)
    (join,) = [op for f in functions(module) for op in f.walk() if op.name == "glow.concat"]
    assert len(shape_of(join.results[0])) == 5


def test_what_does_not_keep_blocks_stays_plain() -> None:
    """A slice inside a block, a softmax over channels and a convolution without a rule read plain values."""
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 4)).astype(np.float32)
    g = glow.GraphBuilder()
    y = g.conv(g.placeholder("x", x.shape), filters(g, 8, 4, 1, 1), None)
    y = g.slice(y, starts=(0, 2, 0, 0), ends=(1, 6, 4, 4), steps=(1, 1, 1, 1))
    y = g.conv(g.softmax(y, axis=1), filters(g, 2, 4, 3, 3), None)
    g.save(y, "y")
    agree(g, x)
    assert operators(g)["glow.conv"] == 1


def test_layouts_of_the_cards() -> None:
    """Channels moved last and back, images flattened and given an axis keep their blocks."""
    x = np.random.default_rng(0).standard_normal((1, 4, 2, 6)).astype(np.float32)
    g = glow.GraphBuilder()
    y = g.conv(g.placeholder("x", x.shape), filters(g, 8, 4, 1, 1), None)
    y = g.transpose(g.tanh(g.transpose(y, permutation=(0, 2, 3, 1))), permutation=(0, 3, 1, 2))
    y = g.reshape(g.exp(g.reshape(y, (1, 8, 12))), (1, 8, 3, 4))
    g.save(g.conv(y, filters(g, 4, 8, 1, 1), None), "y")
    agree(g, x)
    assert operators(g)["glow.transpose"] == 2
