"""Data-parallel instructions and copies: loops over element-wise programs."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit.pointwise import Pointwise, Step, supports
from glow_backends.cpu.kernels.pointwise.elementwise import ElementwiseSpec, emit_elementwise
from glow_backends.cpu.ops.stack import program_in
from glow_backends.cpu.rules.common import known


def elementwise(op: Any, context: CallContext) -> KernelCall | None:
    """A data-parallel instruction as a loop of one step."""
    outs, ins = op.written(), op.read()
    name = op.name.removeprefix("glow_instr.")
    if len(outs) != 1 or op.predicate is not None:
        return None
    kind = dtype_name(outs[0])
    if name == "splat":
        program = Pointwise(0, (Step("constant", (), (op.value,), kind),), (0,))
        return loop(program, outs, [])
    if not known(op) or not supports(name, kind):
        return None
    params = tuple(
        getattr(op, n)
        for n in op.get_irdl_definition().properties
        if n != "operandSegmentSizes" and n in op.properties
    )
    step = Step(name, tuple(range(len(ins))), params, kind)
    program = Pointwise(len(ins), (step,), (len(ins),), tuple(dtype_name(v) for v in ins))
    return loop(program, outs, ins)


def loop(program: Pointwise, outs: list[SSAValue], ins: list[SSAValue]) -> KernelCall:
    """A call of the loop over a program."""
    spec = ElementwiseSpec(
        program,
        shape(outs[0]),
        tuple(shape(v) for v in ins),
        tuple(dtype_name(v) for v in ins),
        tuple(dtype_name(v) for v in outs),
    )
    return KernelCall(emit_elementwise, spec, [*outs, *ins])


def copy(op: Any, context: CallContext) -> KernelCall | None:
    """A copy is a loop without steps."""
    kind = dtype_name(op.src)
    return loop(Pointwise(1, (), (0,), (kind,)), [op.dest], [op.src])


def stack(op: Any, context: CallContext) -> KernelCall | None:
    """A loop of many steps."""
    del context
    return loop(program_in(op), op.result, op.inputs)


RULES: dict[str, Rule] = {"copy": copy, "glow_cpu_instr.stack": stack}
