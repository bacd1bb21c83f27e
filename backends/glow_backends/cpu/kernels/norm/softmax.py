"""Softmax and its logarithm along any axis."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import NARROW, Vec
from glow_backends.cpu.emit.vecmath import exp_nonpositive, log
from glow_backends.cpu.kernel import Kernel, float_typed
from glow_backends.cpu.kernels.reduction.line import At, Line, finite, for_lines, same, share
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp


@dataclass(frozen=True)
class SoftmaxSpec:
    """result = softmax of scale * input along `axis`; `log` asks for its logarithm.

    `masked`: lines of nothing but -inf give 0.

    Operands: result, input (both of `shape` and `dtype`; they may be the same buffer).
    """

    shape: tuple[int, ...]
    axis: int = -1
    log: bool = False
    dtype: str = "f32"
    scale: float = 1.0
    masked: bool = False


def emit_softmax(module: ir.Module, name: str, spec: SoftmaxSpec, target: CpuTarget) -> ir.Function:
    """Emit softmax: the largest element, then exponentials and their sum, then the quotients."""
    k = KernelBuilder(module, name, 2, target, sized=True)
    # Exponentials kept in a 16-bit buffer would be rounded twice: they are computed twice instead.
    narrow = spec.dtype in NARROW

    def body(line: Line, number: Index) -> None:
        del number
        pick = "largest" if spec.scale > 0 else "least"  # a NaN makes the sum one
        peak = line.reduce(pick, same)
        peak = finite(peak) if spec.masked else peak

        def shifted(x: Vec, at: At) -> Vec:
            difference = x - line.spread(peak, at.lanes)
            return difference if spec.scale == 1.0 else difference * spec.scale

        def exponential(x: Vec, at: At) -> Vec:
            return exp_nonpositive(shifted(x, at))

        if spec.log:
            total = log(line.reduce("sum", exponential))
            line.finish(lambda x, at: shifted(x, at) - line.spread(total, at.lanes))
        elif narrow and line.held is None:
            part = share(line.reduce("sum", exponential), spec.masked)
            line.finish(lambda x, at: exponential(x, at) * line.spread(part, at.lanes))
        else:
            part = share(line.update("sum", exponential), spec.masked)
            line.finish(lambda x, at: x * line.spread(part, at.lanes))

    for_lines(k, spec.shape, spec.axis, spec.dtype, body)
    return k.finish()


class Softmax(Kernel[SoftmaxOp | LogSoftmaxOp, SoftmaxSpec]):
    """Softmax, or its logarithm."""

    OPS = (SoftmaxOp, LogSoftmaxOp)
    emit = staticmethod(emit_softmax)

    def match(self, op: SoftmaxOp | LogSoftmaxOp, context: CallContext) -> SoftmaxSpec | None:
        kind, log = float_typed(op), is_instr_of(op, LogSoftmaxOp)
        if kind is None:
            return None
        masked = is_instr_of(op, SoftmaxOp) and op.masked
        return SoftmaxSpec(shape(op.input), op.axis, log, kind, masked=masked)
