"""The recurrent kernel: which instructions it computes, and the operands of a call."""

from __future__ import annotations

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.recurrent.recurrent import (
    emit_recurrent,
    recurrent_parts,
    recurrent_scratch_bytes,
)
from glow_backends.cpu.kernels.recurrent.recurrent_op import CpuRecurrentOp, is_splittable, whole_type
from glow_backends.cpu.kernels.recurrent.recurrent_plan import RecurrentSpec, pack_recurrence, recurrence_form
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import present
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.recurrent import RecurrentOp, activations_of
from glow_dialects.ops.rnn import RnnOp
from glow_passes.autodiff.recurrent import has_training_form

_REVERSE = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class Recurrent(Kernel[CpuRecurrentOp, RecurrentSpec]):
    """All steps of LSTM, GRU or RNN; the recurrent weights are packed."""

    OPS = (CpuRecurrentOp,)
    MADE_FROM = (LstmOp, GruOp, RnnOp)
    emit = staticmethod(emit_recurrent)

    def supports(self, node: GraphOp) -> bool:
        return isinstance(node, RecurrentOp) and (is_splittable(node) or has_training_form(node))

    def match(self, op: CpuRecurrentOp, context: CallContext) -> RecurrentSpec | None:
        kind = dtype_name(op.projected)
        if kind not in ("f32", "f64") or (op.scales is not None and kind != "f32"):
            return None
        loop = None if op.scales is None else context.constant(op.recurrence)
        whole = "" if loop is None else whole_type(loop)
        if whole is None or (op.scales is not None and not whole):
            return None
        steps, samples, _ = shape(op.projected)
        reverse, hidden = _REVERSE[op.direction], shape(op.recurrence)[2]
        names = "activations", "activation_alpha", "activation_beta", "direction"
        properties = {name: getattr(op, name) for name in names}
        return RecurrentSpec(
            op.kind,
            steps,
            samples,
            hidden,
            reverse,
            tuple(tuple(activations_of(properties, d)) for d in range(len(reverse))),
            op.clip,
            op.input_forget,
            op.linear_before_reset,
            op.bias is not None,
            "" if op.lengths is None else dtype_name(op.lengths),
            op.initial_state is not None,
            op.initial_cell is not None,
            op.peepholes is not None,
            kind,
            whole,
        )

    def operands(self, op: CpuRecurrentOp, spec: RecurrentSpec, context: CallContext) -> list[Operand | None]:
        target = context.target
        how = f"recurrence|{recurrence_form(spec, target)}"
        packed = context.pack(op.recurrence, how, lambda w: pack_recurrence(w, spec, target))
        optional = op.bias, op.lengths, op.initial_state, op.initial_cell, op.peepholes, op.scales
        return [*op.result, op.projected, packed, *(v for value in optional for v in present(value))]

    def scratch(self, spec: RecurrentSpec, target: CpuTarget) -> int:
        return recurrent_scratch_bytes(spec, target)

    def flops(self, spec: RecurrentSpec) -> int:
        return 2 * spec.steps * spec.samples * len(spec.reverse) * spec.gates * spec.hidden**2

    def parts(self, spec: RecurrentSpec, target: CpuTarget) -> int:
        return recurrent_parts(spec, target)
