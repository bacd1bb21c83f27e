"""Convolutions of bytes on tile instructions, in the layouts and with the results of `conv_int8`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, Operand, table
from glow_backends.cpu.emit.integer import Residual
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.conv.conv_int8 import Int8Conv, Int8ConvSpec, int8_conv_spec
from glow_backends.cpu.kernels.conv.quantized_ops import IntegerConvOp, QuantizedConvOp
from glow_backends.cpu.lower.images import emit_image_contraction, pixels_of
from glow_backends.cpu.lower.rooms import Rooms
from glow_backends.cpu.target import CpuTarget
from glow_backends.nests.bodies import Body
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.finish import Finish, rounded_between
from glow_backends.nests.images import Image, describe_image, pack_filter
from glow_backends.nests.schedule import Schedule
from glow_dialects.core.estimates import has_extents
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp

if TYPE_CHECKING:
    from llvmlite import ir

FEW_CHANNELS, FEW_PIXELS = 32, 8
"""Of fewer channels or pixels a tile is mostly empty."""


@dataclass(frozen=True)
class ResidualSteps:
    """The sum of a convolution's bytes, clipped from `low` to `high`, and those of another tensor."""

    low: int
    high: int
    residual: Residual
    extras: int = 1

    def write(self, t: Body, value: SSAValue, extras: Sequence[SSAValue]) -> SSAValue:
        """In the order of `quantized_add`, as `Requantize.words`."""

        def number(value: float) -> SSAValue:
            return t.number(value, "f32")

        r = self.residual
        own = rounded_between(t, value, number(self.low - r.own_zero), number(self.high - r.own_zero))
        other = t.add(SubOp, t.cast(extras[0], "f32"), number(r.zero))
        total = t.add(AddOp, t.add(MulOp, own, number(r.own_factor)), t.add(MulOp, other, number(r.factor)))
        bounds = number(r.low - r.to_zero), number(r.high - r.to_zero)
        return t.add(AddOp, rounded_between(t, total, *bounds), number(r.to_zero))


def image_of(spec: Int8ConvSpec, target: CpuTarget) -> Image | None:
    """The convolution of a spec, None where tiles do not pay or none are there."""
    c, q = spec.conv, spec.requantize
    if not target.has_amx or c.group != 1 or has_extents(c) or spec.pairs or spec.zero:
        return None
    if c.in_channels < FEW_CHANNELS or c.out_size[0] * c.out_size[1] <= FEW_PIXELS:
        return None
    steps = None if q.residual is None else ResidualSteps(q.low, q.high, q.residual)
    plain = q.real or q.sums
    finish = Finish(True, "" if q.sums else "column", not plain and steps is None, steps=steps)
    out = "f32" if q.real else "i32" if q.sums else "u8"
    window = c.kernel, c.strides, c.pads, c.dilations
    return Image(c.batch, c.in_channels, c.out_channels, c.size, *window, out=out, finish=finish)


def image_schedule(p: Image, target: CpuTarget) -> Schedule:
    """How a convolution runs."""
    shares = (1, 1) if target.threads == 1 or p.batch >= 4 * target.threads else (1, target.threads)
    name = "tile.bf16" if p.a == "f32" else "tile.u8s8"
    return Schedule(name, 16, 2, 2, pack_a=True, shares=shares)


def describe(p: Image, target: CpuTarget, name: str = "image") -> KernelOp:
    """The description of a convolution's kernel."""
    return describe_image(p, image_schedule(p, target), name)


def emit_image(module: ir.Module, name: str, spec: Image, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, bias, [factor], [limits], [residual], rooms, worker)` of a convolution."""
    return emit_image_contraction(module, name, describe(spec, target), spec, target)


def image_scratch(spec: Image, target: CpuTarget) -> int:
    """Bytes of the workers' rooms."""
    s = image_schedule(spec, target)
    depth = spec.lines(s) * s.unit.k
    return target.threads * sum(Rooms(True, False, False, False).bytes(s, pixels_of(spec, s), depth))


class TileConv(Kernel[IntegerConvOp, Image]):
    """A blocked convolution of bytes, on tiles."""

    OPS = (QuantizedConvOp,)
    emit = staticmethod(emit_image)
    describe = staticmethod(describe)

    def match(self, op: IntegerConvOp, context: CallContext) -> Image | None:
        spec = int8_conv_spec(op, context)
        return None if spec is None else image_of(spec, context.target)

    def operands(self, op: IntegerConvOp, spec: Image, context: CallContext) -> list[Operand | None]:
        plain, s = int8_conv_spec(op, context), image_schedule(spec, context.target)
        assert plain is not None
        y, x, _, sums, factor, *residual = Int8Conv().operands(op, plain, context)
        how = f"image|{s.instruction} {s.lanes} {s.columns}"
        known = [y, x, context.pack(op.filter, how, lambda w: pack_filter(w, spec, s)), sums]
        known += [factor] if spec.finish.factor else []
        known += [table("limits", plain.requantize.limits)] if spec.finish.limits else []
        return [*known, *residual]

    def scratch(self, spec: Image, target: CpuTarget) -> int:
        return image_scratch(spec, target)

    def flops(self, spec: Image) -> int:
        return spec.flops
