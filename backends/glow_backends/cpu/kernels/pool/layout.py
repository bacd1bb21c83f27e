"""Layout of pools: channel blocks stay blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glow_backends.cpu.emit.windows import pads_of_two, pair, window
from glow_backends.cpu.kernels.pool.pool_backward import PoolBackwardSpec
from glow_backends.cpu.kernels.pool.pool_backward_blocked import supports_pool_backward_blocked
from glow_backends.cpu.kernels.pool.pool_ops import PoolBackwardOp, PoolOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.types import dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp, AvgPoolOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp, MaxPoolOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp
from glow_passes.graph.regions import Region


def pool(op: MaxPoolOp | AvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """A pool of a blocked value, without dilation."""
    form = region.known.get(op.input)
    last = op.layout == "NHWC"
    if form is None or form.last != last or set(op.dilations) != {1}:
        return False
    average = isinstance(op, AvgPoolOp)
    new = PoolOp(
        form.value,
        mode="avg" if average else "max",
        kernel=pair(op.kernel, 1),
        strides=pair(op.strides, 1),
        pads=pads_of_two(op.pads),
        count_include_pad=op.count_include_pad if average else False,
    )
    region.remember(op.result, replace(form, value=region.add(new)))
    return True


def reduction(op: ReduceMeanOp | ReduceMaxOp, region: Region, target: CpuTarget) -> bool:
    """The mean or the maximum over all spatial axes: a pool as large as the image."""
    form = region.known.get(op.input)
    if form is None or tuple(sorted(op.axes)) != form.spatial:
        return False
    kernel = shape_of(form.value)[2:4]
    mode = "avg" if isinstance(op, ReduceMeanOp) else "max"
    new = PoolOp(form.value, mode=mode, kernel=kernel, strides=(1, 1), pads=(0, 0, 0, 0))
    result = replace(form, value=region.add(new))
    if op.keepdims:
        region.remember(op.result, result)
    else:
        region.plains[op.result] = region.unblocked(result, op.result.type)
    return True


def pool_backward(op: MaxPoolBackwardOp | AvgPoolBackwardOp, region: Region, target: CpuTarget) -> bool:
    """The gradient of a pool of two axes, where its input is blocked or its reader probably is."""
    last, kind = op.layout == "NHWC", element_of(op.grad)
    largest = isinstance(op, MaxPoolBackwardOp)
    if len(shape_of(op.grad)) != 4 or dtype_of(op.grad.type) != np.float32 or op.predicate is not None:
        return False
    if not last and op.sizes(op.grad)[1] < region.lanes:
        return False
    if largest and not last and op.input not in region.known:
        return False
    lies = window(op.strides, op.pads, op.dilations)
    size, kernel = pair(op.sizes(op.result)[2], 1), pair(op.kernel, 1)
    spec = PoolBackwardSpec("max" if largest else "avg", 1, size, kernel, **lies)
    if not supports_pool_backward_blocked(spec):
        return False
    grad, source = region.blocked(op.grad, last), region.blocked(op.input, last) if largest else None
    if grad is None or (largest and source is None):
        return False
    batch, blocks, _, _, lanes = shape_of(grad.value)
    names = ("kernel", "strides", "pads", "dilations", *(() if largest else ("count_include_pad",)))
    new = PoolBackwardOp(
        grad.value,
        None if source is None else source.value,
        results=tensor((batch, blocks, *op.sizes(op.result)[2], lanes), kind),
        mode="max" if largest else "avg",
        **{n: getattr(op, n) for n in names},
    )
    region.remember(op.result, Blocked(region.add(new), grad.channels, 4, last))
    return True
