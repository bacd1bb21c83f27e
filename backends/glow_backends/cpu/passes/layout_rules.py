"""How each operator is carried over to blocked values: one rule a class of operators.

A rule returns whether it has remembered a blocked (or another plain) form of the results; where it
returns False the operator stays as it is, on plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit.windows import pads_of_two, pair
from glow_backends.cpu.kernels.conv.adjoint_layout import conv_transpose
from glow_backends.cpu.kernels.conv.conv_half import supports_half
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as BlockedConvOp
from glow_backends.cpu.kernels.conv.conv_ops import PoolOp
from glow_backends.cpu.kernels.conv.conv_spec import plain_conv_spec
from glow_backends.cpu.kernels.conv.depthwise import supports_depthwise
from glow_backends.cpu.kernels.conv.plane_layout import few_channels, plane_conv
from glow_backends.cpu.kernels.conv.quantized_layout import RULES as QUANTIZED_RULES
from glow_backends.cpu.kernels.conv.training_layout import (
    batch_norm_backward,
    batch_norm_train,
    changing_conv,
    changing_transpose,
    channel_sum,
    conv_weights,
    pool_backward,
)
from glow_backends.cpu.kernels.conv.volume_layout import volume_conv, volume_transpose
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_backends.cpu.kernels.norm.layout import lrn
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, present, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp, AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormOp, BatchNormTrainOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp
from glow_dialects.ops.lrn import LrnOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp, MaxPoolOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.regions import Region

Rule = Callable[[Any, Region, CpuTarget], bool]


def computes_conv(op: ConvOp, target: CpuTarget) -> bool:
    """Whether a convolution of 16-bit floats by a constant filter stays one on blocks of them."""
    if len(shape_of(op.input)) not in (3, 4) or not target.computes(dtype_name(op.input)):
        return False
    spec = plain_conv_spec(op)
    if few_channels(spec, target):
        return False
    own = 1 < spec.group == spec.in_channels
    image = spec.in_channels < target.lanes and spec.group == 1 and op.layout == "NCHW"
    return own or image or supports_half(spec, target)


def conv(op: ConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution of one to three spatial axes; one of two may have a filter that changes."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    known = all(region.is_known(v) for v in (op.filter, *present(op.bias)))
    if 0 in (*shape_of(op.input), *shape_of(op.filter)) or op.predicate is not None:
        return False
    if rank == 5:
        return volume_conv(op, region, target)
    if not known:
        return changing_conv(op, region, target)
    kind = dtype_name(op.input)
    if rank > 5 or (kind != "f32" and not computes_conv(op, target)):
        return False
    batch, channels, spatial = op.sizes(op.input)
    spec = plain_conv_spec(op)
    out = spec.out_channels
    if few_channels(spec, target):
        filters = _filters(op, region, last, rank)
        if filters is not None and plane_conv(op, region, spec, filters):
            return True
    algorithm = "direct"
    if supports_depthwise(spec):
        algorithm = "depthwise"
    blocks = op.input in region.known and (kind == "f32" or supports_half(spec, target))
    image = channels < target.lanes and spec.group == 1 and not blocks
    if image and not last:
        source = region.plain(op.input)
        if rank == 3:
            shape = (batch, channels, 1, *spatial)
            source = region.add(ReshapeOp(source, results=tensor(shape, element_of(source))))
        if kind != "f32":
            source = region.add(CastOp(source, results=tensor(shape_of(source), f32)))
    else:
        form = region.blocked(op.input, last)
        if form is None:
            return False
        source = form.value
        if spec.kernel == (1, 1) and spec.strides != (1, 1) and not any(spec.pads):
            # The pixels that are read, side by side: rows of any length make full register blocks.
            source = region.add(_every(source, spec.strides))
            spec = replace(spec, size=spec.out_size, strides=(1, 1))
        if 1 < spec.group == channels < out:  # several filters a channel: one for each copy of it
            copies = tuple(o * channels // out for o in range(out))
            source = region.add(PermuteChannelsOp(source, order=copies))
            spec, algorithm = replace(spec, in_channels=out, group=out), "depthwise"
    filters = _filters(op, region, last, rank)
    if filters is None:
        return False
    bias = [region.constant(v) for v in present(op.bias)]
    new = BlockedConvOp(
        source,
        filters,
        bias[0] if bias else None,
        [],
        algorithm=algorithm,
        lanes=target.lanes,
        strides=spec.strides,
        pads=spec.pads,
        dilations=spec.dilations,
        group=spec.group,
    )
    region.remember(op.result, Blocked(region.add(new), out, rank, last))
    return True


def _every(value: SSAValue, strides: tuple[int, int]) -> SliceOp:
    """Every stride-th pixel of a blocked value, from the first on."""
    steps = (1, 1, *strides, 1)
    return SliceOp(value, starts=(0,) * 5, ends=shape_of(value), steps=steps)


def _filters(op: ConvOp, region: Region, last: bool, rank: int) -> SSAValue | None:
    """The filter as OIHW."""
    if not last and rank == 4:
        return region.constant(op.filter)
    array = region.array(op.filter)
    if array is None:
        return None
    array = np.moveaxis(array, -1, 1) if last else array
    array = array[:, :, None, :] if rank == 3 else array
    return region.weight(array, f"{region.name_of(op.filter)}.oihw")


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


def reduction(op: Any, region: Region, target: CpuTarget) -> bool:
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


def adjoint(op: ConvTransposeOp, region: Region, target: CpuTarget) -> bool:
    """A transposed convolution of one to three spatial axes."""
    if len(shape_of(op.input)) == 5:
        return volume_transpose(op, region, target)
    return conv_transpose(op, region, target) or changing_transpose(op, region, target)


def batch_norm(op: BatchNormOp, region: Region, target: CpuTarget) -> bool:
    """Normalisation with constant statistics: a product and a sum a channel."""
    form = region.known.get(op.operands[0])
    arrays = [region.array(v) if region.is_known(v) else None for v in op.operands[1:5]]
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


RULES: dict[type[GraphOp], Rule] = {
    **QUANTIZED_RULES,
    ConvOp: conv,
    ConvBackwardWeightsOp: conv_weights,
    ConvTransposeOp: adjoint,
    MaxPoolOp: pool,
    AvgPoolOp: pool,
    MaxPoolBackwardOp: pool_backward,
    AvgPoolBackwardOp: pool_backward,
    ReduceMeanOp: reduction,
    ReduceMaxOp: reduction,
    ReduceSumOp: channel_sum,
    BatchNormOp: batch_norm,
    BatchNormTrainOp: batch_norm_train,
    BatchNormBackwardOp: batch_norm_backward,
    LrnOp: lrn,
}

#: The rules whose result is in blocks, whatever the operands are.
STARTS: tuple[Rule, ...] = (conv, adjoint, batch_norm)


def starts_blocks(kind: type[GraphOp]) -> bool:
    """Whether kernels of a class of operators write blocks of channels."""
    return RULES.get(kind) in STARTS


def keeps_blocks(kind: type[GraphOp]) -> bool:
    """Whether kernels of a class between layers read blocks and write such: element-wise ones and pools."""
    return issubclass(kind, BinaryOp | UnaryOp) or RULES.get(kind) is pool
