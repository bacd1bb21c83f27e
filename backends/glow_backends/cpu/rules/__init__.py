"""Which kernel an instruction becomes. An instruction without a rule runs by its reference."""

from __future__ import annotations

from functools import cache
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name
from glow_backends.cpu.emit.pointwise import supports
from glow_backends.cpu.rules.pointwise import elementwise
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp
from glow_dialects.ops.dft import DftOp
from glow_dialects.ops.module import GetOp


@cache
def rules() -> dict[str, Rule]:
    """Every rule, by the name of its instruction (`glow_instr.` left out)."""
    from glow_backends.cpu.rules import (
        blocked,
        conv,
        data,
        gemm,
        nn,
        pointwise,
        quantized,
        recurrent_train,
        reduce,
        resize,
        training,
    )

    table: dict[str, Rule] = {}
    for part in (
        pointwise,
        conv,
        gemm,
        blocked,
        data,
        nn,
        quantized,
        recurrent_train,
        reduce,
        resize,
        training,
    ):
        assert not table.keys() & part.RULES.keys(), "an instruction has one rule"
        table |= part.RULES
    return table


def has_rule(op: GraphOp) -> bool:
    """Whether there is a kernel, or a pass that makes one, for a node."""
    name = op.name.removeprefix("glow.")
    if op.DATA_PARALLEL:
        return not op.operands or supports(name, dtype_name(op.results[0]))
    if isinstance(op, DequantizeBlocksOp):
        return all(isinstance(v.owner, GetOp) for v in op.operands)
    return name in rules() or _by_reference(op)


def _by_reference(op: GraphOp) -> bool:
    """Short inverse transforms stay with numpy.fft: published results hold its noise where zero is exact."""
    return isinstance(op, DftOp) and op.inverse and not op.onesided and op.length <= 16


def call_for(op: InstrOp, context: CallContext) -> KernelCall | None:
    """The kernel call of an instruction, or None where there is no kernel for it."""
    rule: Any = rules().get(op.name.removeprefix("glow_instr."))
    if rule is not None:
        return rule(op, context)
    return elementwise(op, context) if op.DATA_PARALLEL else None
