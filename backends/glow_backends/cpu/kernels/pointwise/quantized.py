"""Quantised element-wise operators: loops over stored integers."""

from __future__ import annotations

from glow_backends.cpu.calls import CallContext, dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.pointwise import Pointwise
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.pointwise.elementwise import ElementwiseSpec, emit_elementwise, loop_spec
from glow_backends.cpu.quantized_steps import EXPANSIONS, Steps, expand, is_quantized
from glow_dialects.core.operator import Operator


class QuantizedElementwise(Kernel[Operator, ElementwiseSpec]):
    """A quantised element-wise instruction as a loop of its steps."""

    OPS = (*EXPANSIONS,)
    emit = staticmethod(emit_elementwise)

    def match(self, op: Operator, context: CallContext) -> ElementwiseSpec | None:
        out, *ins = op.operands
        names = [dtype_name(v) for v in (out, *ins)]
        if op.predicate is not None or not all(map(values.has, names)) or not is_quantized(op):
            return None
        steps = Steps(len(ins))
        result = expand(op, out, ins, range(len(ins)), steps)
        return loop_spec(Pointwise(len(ins), tuple(steps.steps), (result,), tuple(names[1:])), [out], ins)
