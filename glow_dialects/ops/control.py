"""Data-dependent branches and loops: graph operations with bodies of nodes.

They stand in modules whose functions are compiled with real control flow; `glow-outline-control` takes
them to `glow_fn`. Bodies use values around them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments as Segments
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import size
from glow_dialects.ops.iota import SizesOp
from glow_dialects.ops.module import constant_value, functions
from glow_dialects.ops.reshape import ReshapeOp


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values of a body."""

    name = "glow.yield"
    values = var_operand_def(BaseAttr(TensorType))
    traits = traits_def(IsTerminator())
    assembly_format = "$values attr-dict (`:` type($values)^)?"

    @staticmethod
    def of(values: Sequence[SSAValue]) -> YieldOp:
        """End a body."""
        return YieldOp(operands=[list(values)])


def yielded(block: Block) -> YieldOp:
    """The end of a body."""
    last = block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("a body ends with glow.yield; add it")
    return last


def _same(what: str, have: Sequence[Attribute], want: Sequence[Attribute]) -> None:
    if list(have) != list(want):
        left, right = (", ".join(map(str, t)) for t in (have, want))
        raise VerifyException(f"{what}: ({left}) where ({right}) is needed; change the one or the other")


@irdl_op_definition
class IfOp(IRDLOperation):
    """The values of one of two bodies; `condition` has one element."""

    name = "glow.if"
    condition = operand_def(BaseAttr(TensorType))
    yes = region_def("single_block")
    no = region_def("single_block")
    outputs = var_result_def(BaseAttr(TensorType))

    @staticmethod
    def of(condition: SSAValue, yes: Block, no: Block) -> IfOp:
        """A branch between two finished bodies."""
        kinds = [v.type for v in yielded(yes).values]
        return IfOp(operands=[condition], regions=[Region(yes), Region(no)], result_types=[kinds])

    def verify_(self) -> None:
        for block in (self.yes.block, self.no.block):
            _same(self.name, [v.type for v in yielded(block).values], [r.type for r in self.outputs])


@irdl_op_definition
class LoopOp(IRDLOperation):
    """State that a body changes while it says so, `limit` times at most.

    The body takes the number of the turn (int64, no axes) and the state; it yields whether to go on (bool, no
    axes) and the new state. `going` tells it for the first turn. Both have one element; without them the loop
    has no limit, or begins.
    """

    name = "glow.loop"
    limit = opt_operand_def(BaseAttr(TensorType))
    going = opt_operand_def(BaseAttr(TensorType))
    state = var_operand_def(BaseAttr(TensorType))
    body = region_def("single_block")
    outputs = var_result_def(BaseAttr(TensorType))
    irdl_options = (Segments(as_property=True),)

    @staticmethod
    def of(limit: SSAValue | None, going: SSAValue | None, state: Sequence[SSAValue], body: Block) -> LoopOp:
        """A loop with a finished body."""
        kinds = [v.type for v in state]
        return LoopOp(operands=[limit, going, list(state)], regions=[Region(body)], result_types=[kinds])

    def verify_(self) -> None:
        kinds = [v.type for v in self.state]
        _same("glow.loop, what the body takes", [a.type for a in self.body.block.args[1:]], kinds)
        _same("glow.loop, what the body yields", [v.type for v in yielded(self.body.block).values[1:]], kinds)


CONTROL = (IfOp, LoopOp)


def turns_of(loop: LoopOp) -> int | None:
    """How many turns a loop has, where that is known or follows from sizes; None where data decide."""
    onward = constant_value(yielded(loop.body.block).values[0])
    if loop.limit is None or loop.going is not None or onward is None or not onward.all():
        return None
    limit = loop.limit
    while isinstance(limit.owner, ReshapeOp):
        limit = limit.owner.input
    known = limit.owner.array() if isinstance(limit.owner, SizesOp) else constant_value(limit)
    return None if known is None else size(known.reshape(-1)[0])


def counts_only(block: Block) -> bool:
    """Whether no data decide what runs in a body: no branch, and no loop of turns that they decide."""
    control = [op for op in block.ops if isinstance(op, CONTROL)]
    return all(
        isinstance(op, LoopOp) and turns_of(op) is not None and counts_only(op.body.block) for op in control
    )


def has_control(module: ModuleOp) -> bool:
    """Whether the graphs of a module have branches or loops."""
    return any(isinstance(op, CONTROL) for f in functions(module) for op in f.body.block.ops)
