"""Layout assignment of quantised operators: unsigned bytes on channel blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.dialect import ConvOp as FloatConvOp
from glow_backends.cpu.kernels.conv_direct import supports_direct
from glow_backends.cpu.kernels.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.depthwise import supports_depthwise
from glow_backends.cpu.kernels.packing import pad_to
from glow_backends.cpu.passes.regions import Blocked, Region
from glow_backends.cpu.pointwise import Pointwise
from glow_backends.cpu.quantized_dialect import QuantizedConvOp as BlockedConvOp
from glow_backends.cpu.quantized_dialect import factor_of
from glow_backends.cpu.quantized_steps import Steps, finish
from glow_backends.cpu.stack import StackOp, steps_attr
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, UniformQuantizedType, element_of, shape_of, tensor
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, RescaleOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp, QuantizedMulOp, QuantizedSubOp
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, scale_of, zero_of

Rule = Callable[[Any, Region, CpuTarget], bool]


def is_byte(value: SSAValue) -> bool:
    """Whether the elements are stored in 8 bits under one scale."""
    kind = element_of(value)
    return isinstance(kind, UniformQuantizedType) and kind.storage.width.data == 8 and kind.axis.data < 0


def unsigned(kind: UniformQuantizedType) -> UniformQuantizedType:
    """The same numbers stored in unsigned bytes."""
    if not kind.signed:
        return kind
    return UniformQuantizedType.of(8, scale_of(kind), zero_of(kind) + 128, signed=False)


def _byte_kind(value: SSAValue) -> UniformQuantizedType:
    kind = element_of(value)
    assert isinstance(kind, UniformQuantizedType)
    return kind


def shifted(op: Any) -> dict[str, Any]:
    """The limits of a result that becomes unsigned."""
    limits: dict[str, Any] = {"low": op.prop("low"), "high": op.prop("high")}
    if not _byte_kind(op.results[0]).signed:
        return limits
    return {n: v if v in (NO_LOW, NO_HIGH) else v + 128 for n, v in limits.items()}


def blocked(value: SSAValue, region: Region, last: bool) -> Blocked | None:
    """The blocked, unsigned form of a quantised value.

    What quantises a float on blocks is repeated there; a plain one is blocked as bytes, of which
    there are fewer.
    """
    found = region.known.get(value)
    if found is not None:
        return found if found.last == last else None
    if region.is_known(value):
        return None
    kind = unsigned(_byte_kind(value))
    owner = value.owner
    if isinstance(owner, QuantizeOp) and element_of(owner.input) == f32:
        form = region.known.get(owner.input)
        if form is not None and form.last == last:
            made = QuantizeOp(form.value, results=tensor(shape_of(form.value), kind))
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
        made = RescaleOp(form.value, results=tensor(shape_of(form.value), kind))
    result = replace(form, value=region.add(made))
    region.remember(value, result)
    return result


def conv(op: QuantizedConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution of one or two spatial axes, in one group, with constant filter and bias."""
    last, rank = op.prop("layout") == "NHWC", len(shape_of(op.input))
    array = region.array(op.filter) if region.is_known(op.filter) else None
    weights = element_of(op.filter)
    known = array is not None and all(region.is_known(v) for v in op.group("bias"))
    if op.prop("group") != 1:
        return grouped(op, region, target)
    if rank not in (3, 4) or not known or array is None:
        return False
    assert isinstance(weights, UniformQuantizedType)
    to = element_of(op.results[0])
    byte = isinstance(to, UniformQuantizedType) and is_byte(op.results[0])
    if not is_byte(op.input) or weights.storage.width.data != 8 or not weights.signed:
        return False
    if not byte and to != f32:
        return False
    form = blocked(op.input, region, last)
    if form is None:
        return False
    out, _, kernel = op.sizes(op.filter)
    strides, dilations = (_flat(op.prop(n), 1) for n in ("strides", "dilations"))
    pads = op.prop("pads")
    pads = (0, pads[0], 0, pads[1]) if rank == 3 else tuple(pads)
    source, zero = form.value, zero_of(_byte_kind(form.value))
    if zero and any(pads):
        top, left, bottom, right = pads
        around = (0, 0, top, left, 0, 0, 0, bottom, right, 0)
        source = region.add(PadOp(source, pads=around, value=float(zero)))
        pads = (0, 0, 0, 0)
    filters = np.moveaxis(array, -1, 1) if last else array
    filters = filters[:, :, None, :] if rank == 3 else filters
    given = op.filter
    if last or rank == 3:
        given = region.weight(np.ascontiguousarray(filters), f"{region.name_of(op.filter)}.oihw", weights)
    height, width = (
        (n + pads[i] + pads[i + 2] - dilations[i] * (k - 1) - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(shape_of(source)[2:4], _flat(kernel, 1), strict=True))
    )
    shape = (shape_of(source)[0], -(-out // region.lanes), height, width, region.lanes)
    made = BlockedConvOp(
        source,
        region.constant(given),
        region.constant(op.bias) if op.bias is not None else None,
        results=tensor(shape, unsigned(_byte_kind(op.results[0])) if byte else f32),
        lanes=target.lanes,
        strides=strides,
        pads=pads,
        dilations=dilations,
        **(shifted(op) if byte else {}),
    )
    region.remember(op.result, replace(form, value=region.add(made), channels=out))
    return True


def grouped(op: QuantizedConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution in groups: sums that float32 holds exactly, on floats, requantised by a loop."""
    last, rank = op.prop("layout") == "NHWC", len(shape_of(op.input))
    array = region.array(op.filter) if region.is_known(op.filter) else None
    biases = [region.array(v) if region.is_known(v) else None for v in op.group("bias")]
    weights, to = element_of(op.filter), element_of(op.results[0])
    byte = is_byte(op.results[0])
    if rank not in (3, 4) or array is None or any(b is None for b in biases) or not is_byte(op.input):
        return False
    assert isinstance(weights, UniformQuantizedType)
    out = op.sizes(op.filter)[0]
    bias = np.zeros(out, np.int64) if not biases else np.asarray(biases[0], np.int64)
    sums = 255 * np.abs(array.astype(np.int64)).reshape(out, -1).sum(axis=1)
    # Biases that float32 rounds are added as integers; those that 32 bits may not hold, nowhere.
    large = bool((sums + np.abs(bias) >= 1 << 24).any())
    if sums.max(initial=0) >= 1 << 24 or np.abs(bias).max(initial=0) >= 1 << 30:
        return False
    if not (byte or to == f32):
        return False
    form = blocked(op.input, region, last)
    if form is None:
        return False
    (batch, channels, spatial), kernel = op.sizes(op.input), op.sizes(op.filter)[2]
    pads = op.prop("pads")
    spec = DirectConvSpec(
        batch,
        channels,
        out,
        _pair(_flat(spatial, 1)),
        _pair(_flat(kernel, 1)),
        _pair(_flat(op.prop("strides"), 1)),
        (0, pads[0], 0, pads[1]) if rank == 3 else pads,
        _pair(_flat(op.prop("dilations"), 1)),
        op.prop("group"),
    )
    depthwise = supports_depthwise(spec)
    if not depthwise and not supports_direct(spec, target):
        return False
    centred = Steps(1)
    value = centred.with_number("sub", centred.add("cast", 0), zero_of(_byte_kind(form.value)))
    source = region.add(_stack([form.value], centred, value, tensor(shape_of(form.value), f32)))
    filters = np.moveaxis(array, -1, 1) if last else array
    filters = filters[:, :, None, :] if rank == 3 else filters
    name = region.name_of(op.filter)
    total = region.add(
        FloatConvOp(
            source,
            region.weight(np.ascontiguousarray(filters).astype(np.float32), f"{name}.f32"),
            region.weight(bias.astype(np.float32), f"{name}.bias") if biases and not large else None,
            [],
            algorithm="depthwise" if depthwise else "direct",
            lanes=target.lanes,
            strides=spec.strides,
            pads=spec.pads,
            dilations=spec.dilations,
            group=spec.group,
        )
    )
    factors = factor_of(weights, _byte_kind(op.input), to, out)
    rows = [_row(factors, f"{name}.factor", region)]
    steps, value = Steps(2 + large), 0
    if large:
        rows.append(_row(bias.astype(np.int32), f"{name}.bias", region))
        whole = steps.add("add", steps.add("cast", 0, dtype="i32"), 2, dtype="i32")
        value = steps.add("cast", whole)
    result, kind = steps.add("mul", value, 1), f32
    if byte:
        limits, kind = shifted(op), unsigned(_byte_kind(op.results[0]))
        result = finish(steps, result, kind, limits["low"], limits["high"], "u8")
    made = region.add(_stack([total, *rows], steps, result, tensor(shape_of(total), kind)))
    region.remember(op.result, replace(form, value=made, channels=out))
    return True


def _row(vector: Array, name: str, region: Region) -> SSAValue:
    """One number a channel, on blocks."""
    padded = pad_to(vector, 0, region.lanes)
    return region.weight(padded.reshape(1, -1, 1, 1, region.lanes), name)


def _pair(values: Any) -> tuple[int, int]:
    return values[0], values[1]


def _flat(values: Any, fill: int) -> tuple[int, ...]:
    return (fill, values[0]) if len(values) == 1 else tuple(values)


def elementwise(op: Any, region: Region, target: CpuTarget) -> bool:
    """Operands of the result's shape, one of them blocked; results become unsigned."""
    shape = shape_of(op.results[0])
    inputs = list(op.operands)
    if any(shape_of(v) != shape for v in inputs) or op.group("predicate"):
        return False
    first = next((region.known[v] for v in inputs if v in region.known), None)
    if first is None or prod(shape) == 0:
        return False
    forms: list[Blocked | None] = []
    for value in inputs:
        quantized = isinstance(element_of(value), UniformQuantizedType)
        if quantized and not is_byte(value):
            return False
        form = blocked(value, region, first.last) if quantized else region.blocked(value, first.last)
        forms.append(form)
    if any(f is None or (f.last, f.rank) != (first.last, first.rank) for f in forms):
        return False
    kind = element_of(op.results[0])
    properties: dict[str, Any] = {}
    if isinstance(kind, UniformQuantizedType):
        if not is_byte(op.results[0]):
            return False
        if "low" in op.properties:
            properties = shifted(op)
        kind = unsigned(kind)
    wide = tensor(shape_of(first.value), kind)
    made = type(op)(*(f.value for f in forms if f), results=wide, **properties)
    region.remember(op.results[0], replace(first, value=region.add(made)))
    return True


def average(op: QuantizedAvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """The mean over all of a blocked image: exact float sums, requantised."""
    last = op.prop("layout") == "NHWC"
    whole = tuple(op.prop("kernel")) == op.sizes(op.input)[2] and not any(op.prop("pads"))
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
    made = region.add(_stack([total], steps, finished, tensor(shape_of(total), to)))
    region.remember(op.result, replace(form, value=made))
    return True


def windows(op: QuantizedAvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """Means of windows of one size: sums as a convolution with ones, requantised by a loop."""
    last, rank = op.prop("layout") == "NHWC", len(shape_of(op.input))
    counted = op.prop("count_include_pad") or not any(op.prop("pads"))
    bytes_only = is_byte(op.input) and is_byte(op.results[0])
    size = prod(op.prop("kernel"))
    if rank != 4 or not counted or not bytes_only or 255 * size >= 1 << 24:
        return False
    form = blocked(op.input, region, last)
    channels = op.sizes(op.input)[1]
    if form is None or channels < 2:
        return False
    source, to = _byte_kind(form.value), unsigned(_byte_kind(op.results[0]))
    centred = Steps(1)
    value = centred.with_number("sub", centred.add("cast", 0), zero_of(source))
    plain = region.add(_stack([form.value], centred, value, tensor(shape_of(form.value), f32)))
    ones = region.weight(np.ones((channels, 1, *op.prop("kernel")), np.float32), "ones")
    total = region.add(
        FloatConvOp(
            plain,
            ones,
            None,
            [],
            algorithm="depthwise",
            lanes=target.lanes,
            strides=op.prop("strides"),
            pads=op.prop("pads"),
            dilations=op.prop("dilations"),
            group=channels,
        )
    )
    limits, steps = shifted(op), Steps(1)
    real = steps.with_number("mul", 0, float(np.float32(scale_of(source) / scale_of(to) / size)))
    result = finish(steps, real, to, limits["low"], limits["high"], "u8")
    made = region.add(_stack([total], steps, result, tensor(shape_of(total), to)))
    region.remember(op.result, replace(form, value=made))
    return True


def _stack(values: list[SSAValue], steps: Steps, result: int, kind: Any) -> StackOp:
    dtypes = tuple(dtype_name(v) for v in values)
    program = Pointwise(len(values), tuple(steps.made), (result,), dtypes)
    return StackOp(values, results=[kind], steps=steps_attr(program), outputs=(result,))


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
    made = region.add(LookupOp(form.value, kept))
    region.remember(op.result, replace(form, value=made))
    return True


RULES: dict[type[GraphOp], Rule] = {
    LookupOp: lookup,
    QuantizedAvgPoolOp: average,
    QuantizedConvOp: conv,
    **{
        kind: elementwise
        for kind in (QuantizeOp, DequantizeOp, RescaleOp, QuantizedAddOp, QuantizedSubOp, QuantizedMulOp)
    },
}
