"""Pooling, normalisation, softmax, recurrent networks."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, shape
from glow_backends.cpu.kernels import normalize
from glow_backends.cpu.kernels.softmax import SoftmaxSpec, emit_softmax
from glow_backends.cpu.rules.common import float_typed


def _softmax(log: bool) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        kind = float_typed(op)
        if kind is None:
            return None
        spec = SoftmaxSpec(shape(op.input), op.prop("axis"), log, kind)
        return KernelCall(emit_softmax, spec, [op.result, op.input])

    return rule


def _layer_norm(rms: bool) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        kind = float_typed(op)
        if kind is None:
            return None
        scale, bias = op.group("scale"), [] if rms else op.group("bias")
        spec = normalize.LayerNormSpec(
            shape(op.input),
            op.prop("axis"),
            op.prop("epsilon"),
            bool(scale),
            bool(bias),
            rms,
            dtype=kind,
        )
        return KernelCall(normalize.emit_layer_norm, spec, [op.result, op.input, *scale, *bias])

    return rule


def _group_norm(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    batch, channels, *size = shape(op.input)
    groups = op.prop("groups") if "groups" in op.properties else channels
    spec = normalize.GroupNormSpec(batch, channels, prod(size), groups, op.prop("epsilon"), kind)
    return KernelCall(normalize.emit_group_norm, spec, [op.result, op.input, op.scale, op.bias])


def _batch_norm(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    batch, *rest = shape(op.input)
    outer, channels, inner = batch, rest[0], prod(rest[1:])
    if op.prop("layout") == "NHWC":
        outer, channels, inner = batch * prod(rest[:-1]), rest[-1], 1
    spec = normalize.BatchNormSpec(outer, channels, inner, op.prop("epsilon"), kind)
    return KernelCall(
        normalize.emit_batch_norm, spec, [op.result, op.input, op.scale, op.bias, op.mean, op.variance]
    )


def _lrn(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    batch, channels, *size = shape(op.input)
    numbers = (op.prop(n) for n in ("size", "alpha", "beta", "bias"))
    spec = normalize.LrnSpec(batch, channels, prod(size), *numbers, dtype=kind)
    return KernelCall(normalize.emit_lrn, spec, [op.result, op.input])


def _lp_normalize(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    spec = normalize.LpNormalizeSpec(shape(op.input), op.prop("axis"), op.prop("p"), dtype=kind)
    return KernelCall(normalize.emit_lp_normalize, spec, [op.result, op.input])


RULES: dict[str, Rule] = {
    "softmax": _softmax(log=False),
    "log_softmax": _softmax(log=True),
    "layer_norm": _layer_norm(rms=False),
    "rms_norm": _layer_norm(rms=True),
    "group_norm": _group_norm,
    "instance_norm": _group_norm,
    "batch_norm": _batch_norm,
    "lrn": _lrn,
    "lp_normalize": _lp_normalize,
}
