"""Normalisations: layer, RMS, group, instance, batch (inference), local response, Lp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Active, Vec
from glow_backends.cpu.emit.vecmath import power
from glow_backends.cpu.kernel import Kernel, float_typed
from glow_backends.cpu.kernels.reduction.line import At, Line, for_lines, same
from glow_backends.cpu.kernels.reduction.reduce import number_like
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.core.types import present
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.group_norm import GroupNormOp, InstanceNormOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.lp_normalize import LpNormalizeOp
from glow_dialects.ops.lrn import LrnOp


@dataclass(frozen=True)
class LayerNormSpec:
    """result = (x - mean) / sqrt(variance + epsilon) * scale + bias over the dims from `axis` on.

    `rms` leaves the mean out: x / sqrt(mean of squares + epsilon) * scale. Operands: result,
    then mean and inverse standard deviation (f32, one a row) if `statistics`, the input, then
    scale and bias (of the normalised shape) if asked for.
    """

    shape: tuple[int, ...]
    axis: int = -1
    epsilon: float = 1e-5
    scale: bool = True
    bias: bool = True
    rms: bool = False
    statistics: bool = False
    dtype: str = "f32"


def emit_layer_norm(module: ir.Module, name: str, spec: LayerNormSpec, target: CpuTarget) -> ir.Function:
    """Emit layer (or RMS) normalisation."""
    outputs = 3 if spec.statistics else 1
    k = KernelBuilder(module, name, outputs + 1 + spec.scale + spec.bias, target, sized=True)
    axis = spec.axis % len(spec.shape)
    count = common.product(spec.shape[axis:])
    rows = common.product(spec.shape[:axis])
    size = 2 * rows * count * values.size(spec.dtype)
    extra = list(k.operands[outputs + 1 :])
    scale = extra.pop(0) if spec.scale else None
    bias = extra.pop(0) if spec.bias else None
    with common.nest(k, [rows], size) as (row,):
        line = Line(k, k.operands[0], k.operands[outputs], k.mul(row, count), count, spec.dtype)
        mean, inverse = _moments(line, spec.epsilon, spec.rms)
        if spec.statistics:
            values.store(k, (mean or inverse.of(0.0)).v, k.operands[1], row, "f32")
            values.store(k, inverse.v, k.operands[2], row, "f32")

        def load(pointer: ir.Value, at: At) -> Vec:
            return Vec(k, values.load(k, pointer, at.place, spec.dtype, at.lanes, at.active))

        def formula(x: Vec, at: At) -> Vec:
            centred = x if mean is None else x - line.spread(mean, at.lanes)
            y = centred * line.spread(inverse, at.lanes)
            if scale is not None and bias is not None:
                return y.fma(load(scale, at), load(bias, at))
            if scale is not None:
                return y * load(scale, at)
            return y if bias is None else y + load(bias, at)

        line.finish(formula)
    return k.finish()


def _moments(line: Line, epsilon: float, rms: bool = False) -> tuple[Vec | None, Vec]:
    """(mean, 1 / sqrt(variance + epsilon)) of a line, the variance from centred elements."""

    def average(total: Vec) -> Vec:
        return total / number_like(total, line.count)

    if rms:
        squares = line.reduce("sum", lambda x, at: x * x)
        return None, 1.0 / (average(squares) + epsilon).sqrt()
    mean = average(line.reduce("sum", same))

    def square(x: Vec, at: At) -> Vec:
        d = x - line.spread(mean, at.lanes)
        return d * d

    variance = average(line.reduce("sum", square))
    return mean, 1.0 / (variance + epsilon).sqrt()


@dataclass(frozen=True)
class GroupNormSpec:
    """Group normalisation of [batch, channels, spatial]; instance norm has groups == channels.

    Operands: result, input, scale and bias (one a channel, `dtype`).
    """

    batch: int
    channels: int
    spatial: int
    groups: int
    epsilon: float = 1e-5
    dtype: str = "f32"


def emit_group_norm(module: ir.Module, name: str, spec: GroupNormSpec, target: CpuTarget) -> ir.Function:
    """Emit group or instance normalisation."""
    k = KernelBuilder(module, name, 4, target)
    members = spec.channels // spec.groups
    count = members * spec.spatial
    size = 2 * spec.batch * spec.channels * spec.spatial * values.size(spec.dtype)
    result, source, scales, biases = k.operands
    if count == 0:
        return k.finish()
    with common.nest(k, [spec.batch, spec.groups], size) as (n, g):
        base = k.index((n, spec.channels * spec.spatial), (g, count))
        whole = Line(k, result, source, base, count, spec.dtype)
        mean, inverse = _moments(whole, spec.epsilon)
        assert mean is not None
        if members == 1:
            _affine(whole, mean, inverse, scales, biases, g)
        else:
            with k.loop(0, members) as m:
                place = k.add(base, k.mul(m, spec.spatial))
                part = Line(k, result, source, place, spec.spatial, spec.dtype)
                channel = k.add(k.mul(g, members), m)
                _affine(part, mean, inverse, scales, biases, channel)
    return k.finish()


def _affine(line: Line, mean: Vec, inverse: Vec, scales: ir.Value, biases: ir.Value, channel: Index) -> None:
    """Normalise, scale and shift one channel by its two numbers."""
    k = line.k
    scale = Vec(k, values.load(k, scales, channel, line.dtype)) * inverse
    bias = Vec(k, values.load(k, biases, channel, line.dtype))
    line.finish(
        lambda x, at: (x - line.spread(mean, at.lanes)).fma(
            line.spread(scale, at.lanes), line.spread(bias, at.lanes)
        )
    )


@dataclass(frozen=True)
class BatchNormSpec:
    """Batch normalisation with given statistics: (x - mean) / sqrt(var + epsilon) * scale + bias.

    The input is [outer, channels, inner] (inner 1: channels last), or with `channel_block` b
    [outer, channels / b, inner, b]. Operands: result, input, scale, bias, mean, variance.
    """

    outer: int
    channels: int
    inner: int
    epsilon: float = 1e-5
    dtype: str = "f32"
    channel_block: int = 1


def emit_batch_norm(module: ir.Module, name: str, spec: BatchNormSpec, target: CpuTarget) -> ir.Function:
    """Emit batch normalisation: two numbers a channel, computed once a run of elements."""
    k = KernelBuilder(module, name, 6, target)
    size = 2 * spec.outer * spec.channels * spec.inner * values.size(spec.dtype)
    lanes = max(1, target.vector_bytes // values.width(spec.dtype))
    result, source, *parameters = k.operands
    block = spec.channel_block
    if spec.outer * spec.channels * spec.inner == 0:
        return k.finish()

    def numbers(channel: Index, width: int, active: int) -> tuple[Vec, Vec]:
        scale, bias, mean, variance = (
            Vec(k, values.load(k, p, channel, spec.dtype, width, active)) for p in parameters
        )
        factor = scale / (variance + spec.epsilon).sqrt()
        return factor, bias - mean * factor

    def apply(place: Index, width: int, active: Active, factor: Vec, shift: Vec) -> None:
        x = Vec(k, values.load(k, source, place, spec.dtype, width, active))
        values.store(k, x.fma(factor, shift).v, result, place, spec.dtype, active)

    if block == 1 and spec.inner > 1:
        with common.nest(k, [spec.outer, spec.channels], size) as (o, c):
            base = k.index((o, spec.channels * spec.inner), (c, spec.inner))
            factor, shift = numbers(c, 1, 1)
            for place, width, active in common.covered(k, 0, spec.inner, lanes, 4):
                wide = [Vec(k, values.splat(k, v.v, width)) for v in (factor, shift)]
                apply(k.add(base, place), width, active, wide[0], wide[1])
        return k.finish()
    rows, row = (spec.outer, spec.channels) if block == 1 else (spec.inner, block)
    groups = [spec.outer, spec.channels // block] if block > 1 else []
    with common.nest(k, groups, size, shared=bool(groups)) as indices:
        first = k.mul(indices[1], block) if groups else 0
        base: Index = 0
        if groups:
            base = k.index((indices[0], spec.channels * spec.inner), (first, spec.inner))
        low, high = (0, rows) if groups else common.share(k, rows, size)
        for place, width, active in common.strips(k, 0, row, lanes, 1):
            factor, shift = numbers(k.add(first, place), width, active)
            with k.loop(low, high) as i:
                here = k.add(k.add(base, place), k.mul(i, row))
                apply(here, width, active, factor, shift)
    return k.finish()


@dataclass(frozen=True)
class LrnSpec:
    """Local response normalisation across the channels of [batch, channels, spatial].

    x / (bias + alpha / size * sum of squares over the window)^beta, the window as ONNX places it.
    Operands: result, input (different buffers).
    """

    batch: int
    channels: int
    spatial: int
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0
    dtype: str = "f32"


def emit_lrn(module: ir.Module, name: str, spec: LrnSpec, target: CpuTarget) -> ir.Function:
    """Emit local response normalisation."""
    k = KernelBuilder(module, name, 2, target)
    result, source = k.operands
    size = 2 * spec.batch * spec.channels * spec.spatial * values.size(spec.dtype)
    before, after = (spec.size - 1) // 2, spec.size // 2
    lanes = max(1, target.vector_bytes // values.width(spec.dtype))
    with common.nest(k, [spec.batch, spec.channels], size) as (n, c):
        image = k.mul(n, spec.channels * spec.spatial)
        center = k.i(c)
        low, high = k.b.sub(center, k.i(before)), k.b.add(center, k.i(after + 1))
        low = k.b.select(k.b.icmp_signed("<", low, k.i(0)), k.i(0), low)
        last = k.i(spec.channels)
        high = k.b.select(k.b.icmp_signed(">", high, last), last, high)
        for place, width, active in common.covered(k, 0, spec.spatial, lanes, 1):

            def load(channel: Index, at: Index = place, w: int = width, a: Active = active) -> Vec:
                here = k.add(k.add(image, k.mul(channel, spec.spatial)), at)
                return Vec(k, values.load(k, source, here, spec.dtype, w, a))

            x = load(c)

            def body(
                i: ir.Value, carried: list[ir.Value], get: Callable[[Index], Vec] = load
            ) -> list[ir.Value]:
                y = get(i)
                return [y.fma(y, Vec(k, carried[0])).v]

            (total,) = k.reduce_loop(low, high, 1, [values.zero(x.v.type)], body)
            base = Vec(k, total).fma(spec.alpha / spec.size, spec.bias)
            value = divide_by_power(x, base, spec.beta)
            here = k.add(k.add(image, k.mul(c, spec.spatial)), place)
            values.store(k, value.v, result, here, spec.dtype, active)
    return k.finish()


def divide_by_power(x: Vec, base: Vec, beta: float) -> Vec:
    """x / base^beta."""
    if beta == 0.75:
        root = base.sqrt()
        return x / (root * root.sqrt())
    if beta == 0.5:
        return x / base.sqrt()
    if beta == 1.0:
        return x / base
    return x * power(base, base.of(-beta))


@dataclass(frozen=True)
class LpNormalizeSpec:
    """result = x / norm along `axis`, the norm of order p (1 or 2); 0 where the norm is 0.

    `epsilon` bounds the norm from below. Operands: result, input.
    """

    shape: tuple[int, ...]
    axis: int = -1
    p: int = 2
    epsilon: float = 0.0
    dtype: str = "f32"


def emit_lp_normalize(module: ir.Module, name: str, spec: LpNormalizeSpec, target: CpuTarget) -> ir.Function:
    """Emit Lp normalisation."""
    k = KernelBuilder(module, name, 2, target)

    def body(line: Line, number: Index) -> None:
        del number
        if spec.p == 1:
            norm = line.reduce("sum", lambda x, at: x.abs())
        else:
            norm = line.reduce("sum", lambda x, at: x * x).sqrt()
        if spec.epsilon > 0.0:
            norm = norm.at_least(spec.epsilon)
        safe = norm.of(1.0).where(norm.compare("==", 0.0), norm)
        line.finish(lambda x, at: x / line.spread(safe, at.lanes))

    for_lines(k, spec.shape, spec.axis, spec.dtype, body)
    return k.finish()


class LayerNorm(Kernel[LayerNormOp | RmsNormOp, LayerNormSpec]):
    """Normalisation of the trailing axes, with parameters of their shape and not of what broadcasts to it."""

    OPS = (LayerNormOp, RmsNormOp)
    emit = staticmethod(emit_layer_norm)

    def match(self, op: LayerNormOp | RmsNormOp, context: CallContext) -> LayerNormSpec | None:
        kind, size, scale = float_typed(op), shape(op.input), present(op.scale)
        bias = present(op.bias) if is_instr_of(op, LayerNormOp) else []
        whole = (1,) * op.axis + size[op.axis :]
        shapes = [(1,) * (len(whole) - len(shape(v))) + shape(v) for v in (*scale, *bias)]
        if kind is None or any(s != whole for s in shapes):
            return None
        rms = is_instr_of(op, RmsNormOp)
        return LayerNormSpec(size, op.axis, op.epsilon, bool(scale), bool(bias), rms, dtype=kind)


class GroupNorm(Kernel[GroupNormOp | InstanceNormOp, GroupNormSpec]):
    """Normalisation of groups of channels, or of each channel."""

    OPS = (GroupNormOp, InstanceNormOp)
    emit = staticmethod(emit_group_norm)

    def match(self, op: GroupNormOp | InstanceNormOp, context: CallContext) -> GroupNormSpec | None:
        kind = float_typed(op)
        batch, channels, *size = shape(op.input)
        groups = op.groups if is_instr_of(op, GroupNormOp) else channels
        return None if kind is None else GroupNormSpec(batch, channels, prod(size), groups, op.epsilon, kind)


class BatchNorm(Kernel[BatchNormOp, BatchNormSpec]):
    """Normalisation by given statistics of each channel."""

    OPS = (BatchNormOp,)
    emit = staticmethod(emit_batch_norm)

    def match(self, op: BatchNormOp, context: CallContext) -> BatchNormSpec | None:
        kind = float_typed(op)
        sizes = around_channels(shape(op.input), op.layout)
        return None if kind is None else BatchNormSpec(*sizes, op.epsilon, kind)


def around_channels(sizes: tuple[int, ...], layout: str) -> tuple[int, int, int]:
    """(outer, channels, inner) of a tensor."""
    batch, *rest = sizes
    if layout == "NHWC":
        return batch * prod(rest[:-1]), rest[-1], 1
    return batch, rest[0], prod(rest[1:])


class Lrn(Kernel[LrnOp, LrnSpec]):
    """Local response normalisation."""

    OPS = (LrnOp,)
    emit = staticmethod(emit_lrn)

    def match(self, op: LrnOp, context: CallContext) -> LrnSpec | None:
        kind = float_typed(op)
        batch, channels, *size = shape(op.input)
        numbers = op.size, op.alpha, op.beta, op.bias
        return None if kind is None else LrnSpec(batch, channels, prod(size), *numbers, dtype=kind)


class LpNormalize(Kernel[LpNormalizeOp, LpNormalizeSpec]):
    """Lines of p-norm 1."""

    OPS = (LpNormalizeOp,)
    emit = staticmethod(emit_lp_normalize)

    def match(self, op: LpNormalizeOp, context: CallContext) -> LpNormalizeSpec | None:
        kind = float_typed(op)
        return None if kind is None else LpNormalizeSpec(shape(op.input), op.axis, op.p, dtype=kind)
