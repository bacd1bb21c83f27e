"""The loops over time of LSTM, GRU and RNN in training."""

from __future__ import annotations

from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.kernels.recurrent_block import RecurrentTrainSpec
from glow_backends.cpu.kernels.recurrent_train import emit_recurrent_train, recurrent_train_scratch_bytes


def _call(op: Any, context: CallContext, spec: RecurrentTrainSpec) -> KernelCall | None:
    if spec.dtype not in ("f32", "f64") or op.group("predicate"):
        return None
    operands = [v for name in op.ACCESS for v in op.group(name)]
    flops = 2 * spec.steps * spec.samples * spec.gates * spec.hidden * spec.hidden
    scratch = recurrent_train_scratch_bytes(spec, context.target)
    return KernelCall(emit_recurrent_train, spec, operands, scratch, flops)


def _options(op: Any) -> dict[str, Any]:
    return {
        "clip": op.prop("clip"),
        "input_forget": op.prop("input_forget"),
        "reset_first": op.prop("kind") == "gru" and not op.prop("linear_before_reset"),
        "lengths": bool(op.group("lengths")),
        "peepholes": bool(op.group("peepholes")),
    }


def _sizes(value: Any) -> tuple[int, int, int]:
    steps, samples, hidden = shape(value)
    return steps, samples, hidden


def forward(op: Any, context: CallContext) -> KernelCall | None:
    """Every step, with what the gradient needs."""
    spec = RecurrentTrainSpec(
        op.prop("kind"),
        *_sizes(op.result),
        op.prop("reverse"),
        op.prop("activation"),
        bias=bool(op.group("bias")),
        dtype=dtype_name(op.projected),
        **_options(op),
    )
    return _call(op, context, spec)


def backward(op: Any, context: CallContext) -> KernelCall | None:
    """Every step from the last one."""
    spec = RecurrentTrainSpec(
        op.prop("kind"),
        *_sizes(op.grad),
        op.prop("reverse"),
        op.prop("activation"),
        cells_grad=bool(op.group("cells_grad")),
        backward=True,
        dtype=dtype_name(op.grad),
        **_options(op),
    )
    return _call(op, context, spec)


RULES: dict[str, Rule] = {"recurrent_train": forward, "recurrent_backward": backward}
