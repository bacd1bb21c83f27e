"""glow-cpu-fuse-norms: neighbours of a normalisation of training join its passes over memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.cpu.emit.epilogue import BINARY
from glow_backends.cpu.emit.pointwise import supports
from glow_backends.cpu.kernels.norm.batch_norm_ops import BatchNormBackwardOp, BatchNormTrainOp
from glow_backends.cpu.passes.cpu_fuse import COMMUTATIVE, followed, gate_of
from glow_backends.cpu.passes.cpu_stack import sort
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import stand_for
from glow_dialects.core.types import dtype_of
from glow_dialects.ops.module import FuncOp, functions
from glow_dialects.ops.select import SelectOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import is_used_once, producer
from glow_passes.graph.symbols import Symbols


def _norm(value: SSAValue) -> BatchNormTrainOp | None:
    """The normalisation that makes `value` for one reader."""
    norm = producer(value, BatchNormTrainOp, single=True)
    return norm if norm is not None and norm.result is value else None


def _source(op: GraphOp) -> tuple[BatchNormTrainOp, int] | None:
    """The normalisation that an element-wise operator follows, and which operand that makes."""
    name, operands = op.name.removeprefix("glow."), list(op.operands)
    if not op.DATA_PARALLEL:
        return None
    if dtype_of(op.results[0].type) != np.float32 or not supports(name, "f32"):
        return None
    if any(v.type != op.results[0].type for v in operands):  # as that of a predicate
        return None
    if len(operands) == 1:
        norm = _norm(operands[0])
        return None if norm is None else (norm, 0)
    if name not in BINARY:
        return None
    sides = (0, 1) if name in COMMUTATIVE else (0,)
    norms = [(n, own) for own in sides if (n := _norm(operands[own]))]
    if len(norms) == 2 and norms[0][0].is_before_in_block(norms[1][0]):
        norms.reverse()  # the later one waits for nothing that is not there
    return norms[0] if norms else None


def _replace(old: GraphOp, new: GraphOp, before: GraphOp) -> None:
    """Put `new` in front of `before` and in the place of `old`."""
    stand_for(new, (old, before))
    Builder.before(before).insert(new)
    for result, new_result in zip(old.results, new.results, strict=True):
        new_result.name_hint = result.name_hint
        result.replace_all_uses_with(new_result)
    old.detach()
    old.erase()


def _follow(op: GraphOp) -> bool:
    """relu(norm(x)) -> norm(x) {relu}."""
    source = _source(op)
    if source is None:
        return False
    norm, own = source
    body, extras = followed(norm, op, own)
    operands = (norm.input, norm.scale, norm.bias, [*norm.extras, *extras])
    new = BatchNormTrainOp(*operands, body=body, epsilon=norm.epsilon)
    _replace(norm, new, op)
    op.results[0].replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()
    return True


def _gate(op: BatchNormBackwardOp, symbols: Symbols) -> bool:
    """norm_backward(x, select(y > 0, dy, 0)) -> norm_backward(x, dy, gate y)."""
    select = producer(op.grad, SelectOp)
    if select is None or op.gate is not None or not is_used_once(select.result):
        return False
    gate = gate_of(select, symbols)
    if gate is None or select.lhs.type != op.grad.type:
        return False
    operands = (op.input, op.scale, op.mean, op.variance, select.lhs, gate)
    _replace(op, BatchNormBackwardOp(*operands, epsilon=op.epsilon), op)
    return True


def fuse(function: FuncOp, symbols: Symbols) -> int:
    """Rewrite one function; how often."""
    count = 0
    for op in list(function.body.block.ops):
        if isinstance(op, BatchNormBackwardOp):
            count += _gate(op, symbols)
        elif isinstance(op, GraphOp):
            count += _follow(op)
    if count:
        sort(function)
    return count


@dataclass(frozen=True)
class CpuFuseNormsPass(GraphPass):
    """Element-wise operators behind a normalisation of training join it, and relu's gradient before one.

    relu(add(norm(x), y)) -> norm(x, y) {steps = ["add", "relu"]}
    """

    name = "glow-cpu-fuse-norms"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        symbols = Symbols(op)
        for function in functions(op):
            fuse(function, symbols)
