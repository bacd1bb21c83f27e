"""Which kernel an instruction becomes. An instruction without a rule runs by its reference."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.kernels.conv_generic import GenericConvSpec, emit_conv_generic
from glow_backends.cpu.kernels.elementwise import ElementwiseSpec, emit_elementwise
from glow_backends.cpu.kernels.epilogue import Epilogue
from glow_backends.cpu.pointwise import Pointwise, Step, supports
from glow_dialects.core.instr_op import InstrOp


def call_for(op: InstrOp, context: CallContext) -> KernelCall | None:
    """The kernel call of an instruction, or None where there is no kernel for it."""
    rule = RULES.get(op.name.removeprefix("glow_instr."))
    if rule is not None:
        return rule(op, context)
    if op.DATA_PARALLEL:
        return elementwise(op, context)
    return None


def elementwise(op: InstrOp, context: CallContext) -> KernelCall | None:
    """A data-parallel instruction as a loop of one step."""
    outs, ins = op.outputs(), op.inputs()
    name = op.name.removeprefix("glow_instr.")
    if len(outs) != 1 or op.group("predicate"):
        return None
    kind = dtype_name(outs[0])
    if name == "splat":
        program = Pointwise(0, (Step("constant", (), (op.prop("value"),), kind),), (0,))
        return _loop(program, outs, [])
    operand_kind = dtype_name(ins[0]) if ins else kind
    if not supports(name, operand_kind):
        return None
    params = tuple(
        op.prop(n)
        for n in op.get_irdl_definition().properties
        if n != "operandSegmentSizes" and n in op.properties
    )
    step = Step(name, tuple(range(len(ins))), params, kind)
    program = Pointwise(len(ins), (step,), (len(ins),), tuple(dtype_name(v) for v in ins))
    return _loop(program, outs, ins)


def _loop(program: Pointwise, outs: list[SSAValue], ins: list[SSAValue]) -> KernelCall:
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
    return _loop(Pointwise(1, (), (0,), (kind,)), [op.dest], [op.src])


def conv(op: Any, context: CallContext) -> KernelCall | None:
    """Any convolution, by the general kernel."""
    kind = dtype_name(op.result)
    if kind not in ("f32", "f64") or op.group("predicate"):
        return None
    last = op.prop("layout") == "NHWC"
    x, w = shape(op.input), shape(op.filter)
    if last:
        x = (x[0], x[-1], *x[1:-1])
        kernel = w[1:-1]
    else:
        kernel = w[2:]
    bias = op.group("bias")
    spec = GenericConvSpec(
        input_shape=x,
        out_channels=w[0],
        kernel=kernel,
        strides=tuple(op.prop("strides")),
        pads=tuple(op.prop("pads")),
        dilations=tuple(op.prop("dilations")),
        group=op.prop("group"),
        channels_last=last,
        weights_channels_last=last,
        epilogue=Epilogue(bias=bool(bias)),
        double=kind == "f64",
    )
    flops = 2 * prod(shape(op.result)) * prod(kernel) * x[1] // op.prop("group")
    return KernelCall(emit_conv_generic, spec, [op.result, op.input, op.filter, *bias], flops=flops)


RULES: dict[str, Rule] = {"conv": conv, "copy": copy}
