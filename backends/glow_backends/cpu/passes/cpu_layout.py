"""glow-cpu-layout: whole regions of the graph on channel-blocked activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_backends.cpu.passes.layout_rules import RULES, elementwise
from glow_backends.cpu.passes.quantized_layout import RULES as QUANTIZED_RULES
from glow_backends.cpu.passes.regions import Region
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import dtype_of, shape_of
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.module import FuncOp, functions
from glow_dialects.ops.resize import ResizeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import producer
from glow_passes.graph.symbols import Symbols


@dataclass(frozen=True)
class CpuLayoutPass(GraphPass):
    """Convolutions and what follows them work on N x C/c x H x W x c; borders convert.

    conv(x, w), relu  ->  unblock(relu(glow_cpu.conv(block(x), w)))

    Values are followed from each convolution on: element-wise operators, pools, joins, slices,
    pads and transposes of channels keep the blocked form; any other reader gets one conversion.
    Joins and interpolations that only a convolution reads are blocked as well.
    `cpu`: "host" or a name such as "haswell", which sets the lanes c.
    """

    name = "glow-cpu-layout"
    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = named(self.cpu)
        symbols = Symbols(op)
        for function in functions(op):
            assign(function, symbols, target)
        symbols.sweep()


def assign(function: FuncOp, symbols: Symbols, target: CpuTarget) -> None:
    """Rewrite one function."""
    region = Region(function, symbols, target.lanes)
    region.early = read_in_blocks(function, target.lanes)
    converted: list[Operation] = []
    for op in list(function.body.block.ops):
        region.start(op)
        if isinstance(op, GraphOp) and _convert(op, region, target):
            converted.append(op)
            continue
        for index, operand in enumerate(op.operands):
            plain = region.plain(operand)
            if plain is not operand:
                op.operands[index] = plain
    for op in reversed(converted):
        op.detach()
        op.erase()


def read_in_blocks(function: FuncOp, lanes: int) -> set[Operation]:
    """Joins along channels and interpolations that one convolution reads, or others of them on its way."""
    in_blocks: set[Operation] = set()
    for op in reversed(list(function.body.block.ops)):
        values: Sequence[SSAValue] = []
        if isinstance(op, ConvOp) and op.layout == "NCHW" and op.group == 1:
            values = [op.input]
        elif isinstance(op, ConcatOp) and op in in_blocks:
            values = op.inputs
        elif isinstance(op, ResizeOp) and op in in_blocks:
            values = [op.input]
        for value in values:
            join, resize = producer(value, ConcatOp, single=True), producer(value, ResizeOp, single=True)
            if len(shape_of(value)) != 4 or dtype_of(value.type) != np.float32:
                continue
            if join is not None and join.axis == 1:
                in_blocks |= {join} if all(shape_of(v)[1] % lanes == 0 for v in join.inputs) else set()
            elif resize is not None and shape_of(value)[1] >= lanes:
                in_blocks.add(resize)
    return in_blocks


def _convert(op: GraphOp, region: Region, target: CpuTarget) -> bool:
    rule = RULES.get(type(op)) or QUANTIZED_RULES.get(type(op))
    if rule is None:
        rule = elementwise if op.DATA_PARALLEL else None
    return rule is not None and rule(op, region, target)
