"""Layout assignment of quantised operators: unsigned bytes on channel blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit.pointwise import Pointwise
from glow_backends.cpu.emit.windows import pads_of_two, pair
from glow_backends.cpu.fused_body import body_of
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as FloatConvOp
from glow_backends.cpu.kernels.conv.depthwise_int8 import LARGEST_KERNEL
from glow_backends.cpu.kernels.conv.quantized_ops import PairsConvOp
from glow_backends.cpu.kernels.conv.quantized_ops import QuantizedConvOp as BlockedConvOp
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.quantized_steps import Steps, finish
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, present, shape_of, tensor
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, RescaleOp, bits_of_one_scale, is_byte
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp, QuantizedMulOp, QuantizedSubOp
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, scale_of, zero_of
from glow_dialects.ops.windows import window_counts
from glow_passes.graph.regions import Region

Rule = Callable[[Any, Region, CpuTarget], bool]


def unsigned(kind: UniformQuantizedType) -> UniformQuantizedType:
    """The same numbers stored in unsigned bytes; those of 16 bits stay as they are."""
    if not kind.signed or kind.storage.width.data != 8:
        return kind
    return UniformQuantizedType.of(8, scale_of(kind), zero_of(kind) + 128, signed=False)


def _byte_kind(value: SSAValue) -> UniformQuantizedType:
    kind = element_of(value)
    assert isinstance(kind, UniformQuantizedType)
    return kind


def _single(value: SSAValue) -> bool:
    """Whether the elements are stored under one scale, in 16 bits at most."""
    return 0 < bits_of_one_scale(value) <= 16


def shifted(op: Any) -> dict[str, Any]:
    """The limits of a result that becomes unsigned."""
    limits: dict[str, Any] = {"low": op.low, "high": op.high}
    if not is_byte(op.results[0]) or not _byte_kind(op.results[0]).signed:
        return limits
    return {n: v if v in (NO_LOW, NO_HIGH) else v + 128 for n, v in limits.items()}


def blocked(value: SSAValue, region: Region, last: bool) -> Blocked | None:
    """The blocked, unsigned form of a quantised value.

    What quantises a float on blocks is repeated there; a plain one is blocked as bytes, of which
    there are fewer.
    """
    form_known = region.known.get(value)
    if form_known is not None:
        return form_known if form_known.last == last else None
    if region.is_known(value):
        return None
    kind = unsigned(_byte_kind(value))
    owner = value.owner
    if isinstance(owner, QuantizeOp) and element_of(owner.input) == f32:
        form = region.known.get(owner.input)
        if form is not None and form.last == last:
            new = QuantizeOp(form.value, results=tensor(shape_of(form.value), kind))
        else:
            plain = region.add(QuantizeOp(region.plain(owner.input), results=tensor(shape_of(value), kind)))
            form = region.blocked(plain, last)
            if form is not None:
                region.remember(value, form)
            return form
    else:
        form = region.blocked(value, last)
        if form is None or element_of(form.value) == kind:
            return form
        new = RescaleOp(form.value, results=tensor(shape_of(form.value), kind))
    result = replace(form, value=region.add(new))
    region.remember(value, result)
    return result


def conv(op: QuantizedConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution of one or two spatial axes with constant filter and bias."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    array = region.array(op.filter) if region.is_known(op.filter) else None
    weights = element_of(op.filter)
    known = array is not None and all(region.is_known(v) for v in present(op.bias))
    if rank not in (3, 4) or not known or array is None:
        return False
    assert isinstance(weights, UniformQuantizedType)
    to = element_of(op.results[0])
    byte = isinstance(to, UniformQuantizedType) and is_byte(op.results[0])
    if not weights.signed or weights.storage.width.data > 16 or (not byte and to not in (f32, i32)):
        return False
    # Sums of 32 bits wrap around, so that 16-bit numbers of any size have them.
    wide = bits_of_one_scale(op.input) == 16 and to == i32
    if not is_byte(op.input) and not wide:
        return False
    form = blocked(op.input, region, last)
    if form is None:
        return False
    out, _, kernel = op.sizes(op.filter)
    strides, dilations, pads = pair(op.strides, 1), pair(op.dilations, 1), pads_of_two(op.pads)
    source, zero = form.value, zero_of(_byte_kind(form.value))
    depthwise = 1 < op.group == op.sizes(op.input)[1] == out
    if depthwise and (wide or prod(kernel) * weights.storage.width.data > 8 * LARGEST_KERNEL):
        return False
    if zero and any(pads) and not depthwise:
        top, left, bottom, right = pads
        around = (0, 0, top, left, 0, 0, 0, bottom, right, 0)
        source = region.add(PadOp(source, pads=around, value=float(zero)))
        pads = (0, 0, 0, 0)
    filters = np.moveaxis(array, -1, 1) if last else array
    filters = filters[:, :, None, :] if rank == 3 else filters
    filters_or_weights = op.filter
    if last or rank == 3:
        filters_or_weights = region.weight(
            np.ascontiguousarray(filters), f"{region.name_of(op.filter)}.oihw", weights
        )
    height, width = (
        (n + pads[i] + pads[i + 2] - dilations[i] * (k - 1) - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(shape_of(source)[2:4], pair(kernel, 1), strict=True))
    )
    shape = (shape_of(source)[0], -(-out // region.lanes), height, width, region.lanes)
    new = (PairsConvOp if wide else BlockedConvOp)(
        source,
        region.constant(filters_or_weights),
        region.constant(op.bias) if op.bias is not None else None,
        results=tensor(shape, unsigned(_byte_kind(op.results[0])) if byte else to),
        lanes=target.lanes,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=op.group,
        **(shifted(op) if byte else {}),
    )
    region.remember(op.result, replace(form, value=region.add(new), channels=out))
    return True


def elementwise(op: Any, region: Region, target: CpuTarget) -> bool:
    """Operands of the result's shape, one of them blocked; bytes become unsigned."""
    shape = shape_of(op.results[0])
    inputs = list(op.operands)
    if any(shape_of(v) != shape for v in inputs) or op.predicate is not None:
        return False
    first = next((region.known[v] for v in inputs if v in region.known), None)
    if first is None or prod(shape) == 0:
        return False
    forms: list[Blocked | None] = []
    for value in inputs:
        quantized = isinstance(element_of(value), UniformQuantizedType)
        if quantized and not _single(value):
            return False
        form = blocked(value, region, first.last) if quantized else region.blocked(value, first.last)
        forms.append(form)
    if any(f is None or (f.last, f.rank) != (first.last, first.rank) for f in forms):
        return False
    kind = element_of(op.results[0])
    properties: dict[str, Any] = {}
    if isinstance(kind, UniformQuantizedType):
        if not _single(op.results[0]):
            return False
        if "low" in op.properties:
            properties = shifted(op)
        kind = unsigned(kind)
    wide = tensor(shape_of(first.value), kind)
    new = type(op)(*(f.value for f in forms if f), results=wide, **properties)
    region.remember(op.results[0], replace(first, value=region.add(new)))
    return True


def average(op: QuantizedAvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """The mean over all of a blocked image: exact float sums, requantised."""
    last = op.layout == "NHWC"
    whole = tuple(op.kernel) == op.sizes(op.input)[2] and not any(op.pads)
    if not whole or not is_byte(op.input) or not is_byte(op.results[0]):
        return windows(op, region, target)
    form = blocked(op.input, region, last)
    if form is None:
        return False
    spatial = shape_of(form.value)[2:4]
    source, to = _byte_kind(form.value), unsigned(_byte_kind(op.results[0]))
    wide = shape_of(form.value)
    centred = Steps(1)
    value = centred.with_number("sub", centred.add("cast", 0), zero_of(source))
    plain = region.add(_stack([form.value], centred, value, tensor(wide, f32)))
    total = region.add(ReduceSumOp(plain, axes=(2, 3), keepdims=True))
    limits, steps = shifted(op), Steps(1)
    factor = float(np.float32(scale_of(source) / scale_of(to) / prod(spatial)))
    real = steps.with_number("mul", 0, factor)
    finished = finish(steps, real, to, limits["low"], limits["high"], "u8")
    new = region.add(_stack([total], steps, finished, tensor(shape_of(total), to)))
    region.remember(op.result, replace(form, value=new))
    return True


def windows(op: QuantizedAvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """Means of windows: sums as a convolution with ones, requantised by a loop."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    bytes_only = is_byte(op.input) and is_byte(op.results[0])
    if rank != 4 or not bytes_only or 255 * prod(op.kernel) >= 1 << 24:
        return False
    form = blocked(op.input, region, last)
    channels = op.sizes(op.input)[1]
    if form is None or channels < 2:
        return False
    source, to = _byte_kind(form.value), unsigned(_byte_kind(op.results[0]))
    centred = Steps(1)
    value = centred.with_number("sub", centred.add("cast", 0), zero_of(source))
    plain = region.add(_stack([form.value], centred, value, tensor(shape_of(form.value), f32)))
    ones = region.weight(np.ones((channels, 1, *op.kernel), np.float32), "ones")
    total = region.add(
        FloatConvOp(
            plain,
            ones,
            None,
            [],
            algorithm="depthwise",
            lanes=target.lanes,
            strides=op.strides,
            pads=op.pads,
            dilations=op.dilations,
            group=channels,
        )
    )
    window = (op.kernel, op.strides, op.pads, op.dilations)
    counts = window_counts(shape_of(form.value)[2:4], window, op.count_include_pad)
    factors = (scale_of(source) / scale_of(to) / counts).astype(np.float32)
    limits, parts = shifted(op), [total]
    if factors.min() < factors.max():  # windows at the border hold fewer places
        parts.append(region.weight(factors[..., None], "factors"))
    steps = Steps(len(parts))
    real = steps.add("mul", 0, 1) if parts[1:] else steps.with_number("mul", 0, float(factors.flat[0]))
    result = finish(steps, real, to, limits["low"], limits["high"], "u8")
    new = region.add(_stack(parts, steps, result, tensor(shape_of(total), to)))
    region.remember(op.result, replace(form, value=new))
    return True


def _stack(values: list[SSAValue], steps: Steps, result: int, kind: Any) -> StackOp:
    dtypes = tuple(dtype_name(v) for v in values)
    program = Pointwise(len(values), tuple(steps.steps), (result,), dtypes)
    return StackOp(values, results=[kind], body=body_of(program))


def lookup(op: LookupOp, region: Region, target: CpuTarget) -> bool:
    """The same table, its entries unsigned; the place of an entry does not depend on signs."""
    table = region.array(op.table) if region.is_known(op.table) else None
    form = region.known.get(op.input)
    if form is None or table is None or not is_byte(op.input) or not is_byte(op.result):
        return False
    form = blocked(op.input, region, form.last)
    if form is None:
        return False
    to = _byte_kind(op.result)
    entries = (table.astype(np.int16) + (128 if to.signed else 0)).astype(np.uint8)
    kept = region.weight(entries, f"{region.name_of(op.table)}.u8", unsigned(to))
    new = region.add(LookupOp(form.value, kept))
    region.remember(op.result, replace(form, value=new))
    return True


def bit_cast(op: BitCastOp, region: Region, target: CpuTarget) -> bool:
    """The same bits on blocks; bytes that become stored ones are stored unsigned."""
    form, kind = region.known.get(op.input), element_of(op.result)
    many = isinstance(kind, UniformQuantizedType) and kind.axis.data >= 0
    if form is None or is_byte(op.input) or many:
        return False
    shape = shape_of(form.value)
    new = region.add(BitCastOp(form.value, results=tensor(shape, kind)))
    if isinstance(kind, UniformQuantizedType) and is_byte(op.result) and kind.signed:
        new = region.add(RescaleOp(new, results=tensor(shape, unsigned(kind))))
    region.remember(op.result, replace(form, value=new))
    return True


RULES: dict[type[GraphOp], Rule] = {
    BitCastOp: bit_cast,
    LookupOp: lookup,
    QuantizedAvgPoolOp: average,
    QuantizedConvOp: conv,
    **{
        kind: elementwise
        for kind in (QuantizeOp, DequantizeOp, RescaleOp, QuantizedAddOp, QuantizedSubOp, QuantizedMulOp)
    },
}
