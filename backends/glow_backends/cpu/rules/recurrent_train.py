"""The loops over time of LSTM, GRU and RNN in training."""

from __future__ import annotations

from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.kernels.recurrent.recurrent_block import RecurrentTrainSpec
from glow_backends.cpu.kernels.recurrent.recurrent_train import (
    emit_recurrent_train,
    recurrent_train_scratch_bytes,
)


def _call(op: Any, context: CallContext, spec: RecurrentTrainSpec) -> KernelCall | None:
    if spec.dtype not in ("f32", "f64") or op.predicate is not None:
        return None
    operands = [v for name in op.ACCESS for v in op.operand_group(name)]
    flops = 2 * spec.steps * spec.samples * spec.gates * spec.hidden * spec.hidden
    scratch = recurrent_train_scratch_bytes(spec, context.target)
    return KernelCall(emit_recurrent_train, spec, operands, scratch, flops)


def _options(op: Any) -> dict[str, Any]:
    return {
        "clip": op.clip,
        "input_forget": op.input_forget,
        "reset_first": op.kind == "gru" and not op.linear_before_reset,
        "lengths": op.lengths is not None,
        "peepholes": op.peepholes is not None,
    }


def _sizes(value: Any) -> tuple[int, int, int]:
    steps, samples, hidden = shape(value)
    return steps, samples, hidden


def forward(op: Any, context: CallContext) -> KernelCall | None:
    """Every step, with what the gradient needs."""
    spec = RecurrentTrainSpec(
        op.kind,
        *_sizes(op.result),
        op.reverse,
        op.activation,
        bias=op.bias is not None,
        dtype=dtype_name(op.projected),
        **_options(op),
    )
    return _call(op, context, spec)


def backward(op: Any, context: CallContext) -> KernelCall | None:
    """Every step from the last one."""
    spec = RecurrentTrainSpec(
        op.kind,
        *_sizes(op.grad),
        op.reverse,
        op.activation,
        cells_grad=op.cells_grad is not None,
        backward=True,
        dtype=dtype_name(op.grad),
        **_options(op),
    )
    return _call(op, context, spec)


RULES: dict[str, Rule] = {"recurrent_train": forward, "recurrent_backward": backward}
