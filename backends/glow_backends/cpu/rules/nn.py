"""Pooling, normalisation, softmax, recurrent networks."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.kernels.data.channels import PermuteChannelsSpec, emit_permute_channels
from glow_backends.cpu.kernels.norm import normalize
from glow_backends.cpu.kernels.norm.lrn_blocked import BlockedLrnSpec, emit_lrn_blocked
from glow_backends.cpu.kernels.norm.softmax import SoftmaxSpec, emit_softmax
from glow_backends.cpu.kernels.pool.pool import PoolSpec, emit_pool
from glow_backends.cpu.kernels.pool.pool_argmax import emit_pool_argmax
from glow_backends.cpu.kernels.reduction.reduce import ReduceSpec, emit_reduce
from glow_backends.cpu.rules import recurrent
from glow_backends.cpu.rules.common import float_typed, known
from glow_dialects.core.types import present


def _softmax(log: bool) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        kind = float_typed(op)
        if kind is None:
            return None
        spec = SoftmaxSpec(shape(op.input), op.axis, log, kind)
        return KernelCall(emit_softmax, spec, [op.result, op.input])

    return rule


def _layer_norm(rms: bool) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        kind = float_typed(op)
        if kind is None:
            return None
        scale: list[Any] = present(op.scale)
        bias: list[Any] = [] if rms else present(op.bias)
        # The kernel reads parameters of the normalised shape, not what broadcasts to it.
        whole = (1,) * op.axis + shape(op.input)[op.axis :]
        for value in (*scale, *bias):
            if (1,) * (len(whole) - len(shape(value))) + shape(value) != whole:
                return None
        spec = normalize.LayerNormSpec(
            shape(op.input),
            op.axis,
            op.epsilon,
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
    groups = op.groups if "groups" in op.properties else channels
    spec = normalize.GroupNormSpec(batch, channels, prod(size), groups, op.epsilon, kind)
    return KernelCall(normalize.emit_group_norm, spec, [op.result, op.input, op.scale, op.bias])


def _batch_norm(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    batch, *rest = shape(op.input)
    outer, channels, inner = batch, rest[0], prod(rest[1:])
    if op.layout == "NHWC":
        outer, channels, inner = batch * prod(rest[:-1]), rest[-1], 1
    spec = normalize.BatchNormSpec(outer, channels, inner, op.epsilon, kind)
    return KernelCall(
        normalize.emit_batch_norm, spec, [op.result, op.input, op.scale, op.bias, op.mean, op.variance]
    )


def _pool(mode: str) -> Rule:
    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        if not known(op) or (mode == "avg" and float_typed(op) is None):
            return None
        batch, *rest = shape(op.input)
        outer, size, inner = batch * rest[0], tuple(rest[1:]), 1
        if op.layout == "NHWC":
            outer, size, inner = batch, tuple(rest[:-1]), rest[-1]
        return pool_call(op, mode, outer, size, inner, op.dilations)

    return rule


def pool_call(
    op: Any, mode: str, outer: int, size: tuple[int, ...], inner: int, dilations: tuple[int, ...]
) -> KernelCall:
    """A pool over the tensor seen as [outer, *size, inner]; one over all of it is a reduction."""
    kind = dtype_name(op.input)
    if op.kernel == size and not any(op.pads) and set(dilations) == {1}:
        reduction = ReduceSpec("mean" if mode == "avg" else "max", (outer, prod(size), inner), (1,), kind)
        return KernelCall(emit_reduce, reduction, [op.result, op.input])
    counted = mode == "avg" and op.count_include_pad
    spec = PoolSpec(
        mode,
        outer,
        size,
        inner,
        op.kernel,
        op.strides,
        op.pads,
        dilations,
        counted,
        kind,
    )
    return KernelCall(emit_pool, spec, [op.result, op.input])


def _pool_argmax(op: Any, context: CallContext) -> KernelCall | None:
    """Maxima and their places."""
    del context
    kind = dtype_name(op.input)
    if not known(op) or kind == "i1":
        return None
    batch, *rest = shape(op.input)
    outer, size, inner = batch * rest[0], tuple(rest[1:]), 1
    if op.layout == "NHWC":
        outer, size, inner = batch, tuple(rest[:-1]), rest[-1]
    window = (op.kernel, op.strides, op.pads, op.dilations)
    spec = PoolSpec("max", outer, size, inner, *window, dtype=kind)
    return KernelCall(emit_pool_argmax, spec, [op.result, op.argmax, op.input])


def _blocked_pool(op: Any, context: CallContext) -> KernelCall | None:
    """Pooling on channel blocks."""
    del context
    if not known(op) or (op.mode == "avg" and float_typed(op) is None):
        return None
    batch, blocks, *size, lanes = shape(op.input)
    return pool_call(op, op.mode, batch * blocks, tuple(size), lanes, (1,) * len(size))


def _permute_channels(op: Any, context: CallContext) -> KernelCall | None:
    """Another order of channels."""
    del context
    if not known(op):
        return None
    batch, blocks, height, width, lanes = shape(op.input)
    plane, width_bytes = height * width, values.size(dtype_name(op.input))
    spec = PermuteChannelsSpec(batch, plane, op.order, lanes, width_bytes, blocks * lanes)
    return KernelCall(emit_permute_channels, spec, [op.result, op.input])


def _lrn(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    batch, channels, *size = shape(op.input)
    numbers = (getattr(op, n) for n in ("size", "alpha", "beta", "bias"))
    spec = normalize.LrnSpec(batch, channels, prod(size), *numbers, dtype=kind)
    return KernelCall(normalize.emit_lrn, spec, [op.result, op.input])


def _blocked_lrn(op: Any, context: CallContext) -> KernelCall | None:
    """Local response normalisation on channel blocks."""
    del context
    batch, _, height, width, lanes = shape(op.input)
    if dtype_name(op.input) != "f32" or op.size > 2 * lanes + 1:
        return None
    numbers = (getattr(op, n) for n in ("size", "alpha", "beta", "bias"))
    spec = BlockedLrnSpec(batch, op.channels, height * width, lanes, *numbers)
    return KernelCall(emit_lrn_blocked, spec, [op.result, op.input])


def _lp_normalize(op: Any, context: CallContext) -> KernelCall | None:
    del context
    kind = float_typed(op)
    if kind is None:
        return None
    spec = normalize.LpNormalizeSpec(shape(op.input), op.axis, op.p, dtype=kind)
    return KernelCall(normalize.emit_lp_normalize, spec, [op.result, op.input])


RULES: dict[str, Rule] = {
    **recurrent.RULES,
    "softmax": _softmax(log=False),
    "log_softmax": _softmax(log=True),
    "layer_norm": _layer_norm(rms=False),
    "rms_norm": _layer_norm(rms=True),
    "group_norm": _group_norm,
    "instance_norm": _group_norm,
    "batch_norm": _batch_norm,
    "max_pool": _pool("max"),
    "avg_pool": _pool("avg"),
    "max_pool_with_argmax": _pool_argmax,
    "glow_cpu_instr.pool": _blocked_pool,
    "glow_cpu_instr.permute_channels": _permute_channels,
    "glow_cpu_instr.lrn": _blocked_lrn,
    "lrn": _lrn,
    "lp_normalize": _lp_normalize,
}
