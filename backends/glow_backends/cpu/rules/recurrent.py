"""The loops over time of LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Operand, Rule, dtype_name, shape
from glow_backends.cpu.kernels.recurrent.recurrent import (
    GATES,
    RecurrentSpec,
    emit_recurrent,
    pack_recurrence,
    recurrence_form,
    recurrent_parts,
    recurrent_scratch_bytes,
)
from glow_dialects.ops.recurrent import activations_of

_REVERSE = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def recurrent(op: Any, context: CallContext) -> KernelCall | None:
    """One kernel for all steps; the recurrent weights are packed."""
    kind = dtype_name(op.projected)
    if kind not in ("f32", "f64"):
        return None
    target, gates = context.target, GATES[op.kind]
    steps, samples, _ = shape(op.projected)
    reverse, hidden = _REVERSE[op.direction], shape(op.recurrence)[2]
    properties = {
        n: getattr(op, n) for n in ("activations", "activation_alpha", "activation_beta", "direction")
    }
    optional: list[list[Any]] = [
        op.operand_group(n) for n in ("bias", "lengths", "initial_state", "initial_cell", "peepholes")
    ]
    bias, lengths, state, cell, peepholes = optional
    spec = RecurrentSpec(
        op.kind,
        steps,
        samples,
        hidden,
        reverse,
        tuple(tuple(activations_of(properties, d)) for d in range(len(reverse))),
        op.clip,
        op.input_forget,
        op.linear_before_reset,
        bool(bias),
        dtype_name(lengths[0]) if lengths else "",
        bool(state),
        bool(cell),
        bool(peepholes),
        kind,
    )
    how = f"recurrence|{recurrence_form(spec, target)}"
    packed = context.pack(op.recurrence, how, lambda w: pack_recurrence(w, spec, target))
    if packed is None:
        return None
    operands: list[Operand] = [*op.result, op.projected, packed]
    operands += [v for part in optional for v in part]
    flops = 2 * steps * samples * len(reverse) * gates * hidden * hidden
    scratch, parts = recurrent_scratch_bytes(spec, target), recurrent_parts(spec, target)
    return KernelCall(emit_recurrent, spec, operands, scratch, flops, parts=parts)


RULES: dict[str, Rule] = {"glow_cpu_instr.recurrent": recurrent}
