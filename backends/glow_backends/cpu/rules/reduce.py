"""Reductions over axes."""

from __future__ import annotations

from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.kernels.reduction.arg_reduce import ArgReduceSpec, emit_arg_reduce
from glow_backends.cpu.kernels.reduction.reduce import ReduceSpec, emit_reduce
from glow_backends.cpu.rules.common import known

_ANY = ("sum", "max", "min", "prod", "sum_square", "l1")
_FLOAT_ONLY = ("mean", "l2", "log_sum", "log_sum_exp")
_BOOLEAN = ("max", "min", "prod")


def _reduce(name: str) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        kind = dtype_name(op.input)
        if not known(op) or (name in _FLOAT_ONLY and not values.is_float(kind)):
            return None
        if kind == "i1" and name not in _BOOLEAN:
            return None
        return KernelCall(
            emit_reduce, ReduceSpec(name, shape(op.input), op.axes, kind), [op.result, op.input]
        )

    return rule


def _arg_reduce(name: str) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        if not known(op) or 0 in shape(op.input):
            return None
        last = op.select_last_index
        spec = ArgReduceSpec(name, shape(op.input), op.axis, dtype_name(op.input), last)
        return KernelCall(emit_arg_reduce, spec, [op.result, op.input])

    return rule


RULES: dict[str, Rule] = {
    **{f"reduce_{name}": _reduce(name) for name in (*_ANY, *_FLOAT_ONLY)},
    **{name: _arg_reduce(name) for name in ("arg_max", "arg_min")},
}
