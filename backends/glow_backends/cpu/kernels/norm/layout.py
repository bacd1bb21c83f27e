"""Layout of normalisations: channel blocks stay blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glow_backends.cpu.kernels.norm.batch_norm_ops import BatchNormBackwardOp as BlockedNormBackwardOp
from glow_backends.cpu.kernels.norm.batch_norm_ops import BatchNormTrainOp as BlockedNormTrainOp
from glow_backends.cpu.kernels.norm.lrn_op import BlockedLrnOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import dtype_of
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormOp, BatchNormTrainOp
from glow_dialects.ops.lrn import LrnOp
from glow_passes.graph.regions import Region


def batch_norm(op: BatchNormOp, region: Region, target: CpuTarget) -> bool:
    """Normalisation with constant statistics: a product and a sum a channel."""
    form = region.known.get(op.input)
    vectors = (op.scale, op.bias, op.mean, op.variance)
    arrays = [region.array(v) if region.is_known(v) else None for v in vectors]
    if form is None or form.axis != op.channel or op.predicate is not None:
        return False
    if any(a is None for a in arrays):
        return False
    scale, shift, mean, variance = (np.asarray(a, np.float64) for a in arrays)
    factor = scale / np.sqrt(variance + op.epsilon)
    shape = [-1 if a == form.axis else 1 for a in range(form.rank)]
    value = form.value
    for kind, vector in ((MulOp, factor), (AddOp, shift - mean * factor)):
        constant = region.weight(vector.astype(np.float32).reshape(shape), "batch_norm")
        row = region.operand(constant, form)
        assert row is not None
        value = region.add(kind(value, row))
    region.remember(op.results[0], replace(form, value=value))
    return True


def batch_norm_train(op: BatchNormTrainOp, region: Region, target: CpuTarget) -> bool:
    """Normalisation by the statistics of a blocked batch."""
    form = region.known.get(op.input)
    if form is None or form.axis != op.channel:
        return False
    scale, bias = (region.plain(v) for v in (op.scale, op.bias))
    new = BlockedNormTrainOp(form.value, scale, bias, [], epsilon=op.epsilon)
    return _remember(op, new, form, region)


def batch_norm_backward(op: BatchNormBackwardOp, region: Region, target: CpuTarget) -> bool:
    """Its gradient."""
    form = region.known.get(op.input)
    if form is None or form.axis != op.channel:
        return False
    grad = region.blocked(op.grad, form.last)
    if grad is None:
        return False
    scale, mean, variance = (region.plain(v) for v in (op.scale, op.mean, op.variance))
    new = BlockedNormBackwardOp(form.value, scale, mean, variance, grad.value, None, epsilon=op.epsilon)
    return _remember(op, new, form, region)


def _remember(op: GraphOp, blocked_op: GraphOp, form: Blocked, region: Region) -> bool:
    """The first result is blocked, the others are plain."""
    region.builder.insert(blocked_op)
    region.remember(op.results[0], Blocked(blocked_op.results[0], form.channels, form.rank, form.last))
    for old, new in zip(op.results[1:], blocked_op.results[1:], strict=True):
        region.plains[old] = new
    return True


def lrn(op: LrnOp, region: Region, target: CpuTarget) -> bool:
    """Local response normalisation of a blocked NCHW value."""
    form = region.known.get(op.input)
    size: int = op.size
    if form is None or form.last or size > 2 * target.lanes + 1 or dtype_of(op.input.type) != np.float32:
        return False
    numbers = {n: getattr(op, n) for n in ("alpha", "beta", "bias")}
    new = BlockedLrnOp(form.value, channels=form.channels, size=size, **numbers)
    region.remember(op.result, replace(form, value=region.add(new)))
    return True
