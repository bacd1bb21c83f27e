"""Convolutions of float32 whose factors may be rounded: see `PRECISIONS`. Others import nothing for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glow_backends.cpu.calls import CallContext, Operand, dtype_name
from glow_backends.cpu.emit.filters import plain_filter
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.conv.blocked_conv import bias_operand
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_spec import conv_spec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import has_extents
from glow_dialects.core.types import present

if TYPE_CHECKING:
    from llvmlite import ir

    from glow_backends.nests.dialect import KernelOp
    from glow_backends.nests.images import Image

DEPTH = 32
"""Channels are multiples of the numbers in a row of a tile."""


def emit_rounded_conv(module: ir.Module, name: str, spec: Image, target: CpuTarget) -> ir.Function:
    """The kernel of a convolution."""
    from glow_backends.cpu.kernels.conv.tile_conv import emit_image

    return emit_image(module, name, spec, target)


def describe_rounded_conv(spec: Image, target: CpuTarget, name: str) -> KernelOp:
    """Its description."""
    from glow_backends.cpu.kernels.conv.tile_conv import describe

    return describe(spec, target, name)


class RoundedConv(Kernel[ConvOp, "Image"]):
    """A blocked convolution with factors rounded to bfloat16, on tiles, whichever algorithm it has else."""

    OPS = (ConvOp,)
    emit = staticmethod(emit_rounded_conv)
    describe = staticmethod(describe_rounded_conv)

    def match(self, op: ConvOp, context: CallContext) -> Image | None:
        target = context.target
        if target.precision != "bf16" or not target.has_amx or op.lanes != target.lanes:
            return None
        if op.packed is not None or context.constant(op.filter) is None or dtype_name(op.filter) != "f32":
            return None
        c = conv_spec(op)
        if c.stored != "f32" or c.plain_input or c.group != 1 or has_extents(c) or c.in_channels % DEPTH:
            return None
        from glow_backends.cpu.kernels.conv.tile_conv import FEW_PIXELS

        if c.out_size[0] * c.out_size[1] <= FEW_PIXELS:
            return None
        from glow_backends.cpu.kernels.gemm.rounded_products import steps_of_program
        from glow_backends.nests.finish import Finish
        from glow_backends.nests.images import Image

        finish = Finish(bias=c.epilogue.bias, steps=steps_of_program(c.epilogue.program))
        window = c.kernel, c.strides, c.pads, c.dilations
        kinds = "f32", "f32", "f32"
        sizes = c.batch, c.in_channels, c.out_channels, c.size
        return Image(*sizes, *window, *kinds, finish=finish)

    def operands(self, op: ConvOp, spec: Image, context: CallContext) -> list[Operand | None]:
        from glow_backends.cpu.kernels.conv.tile_conv import image_schedule
        from glow_backends.nests.images import pack_filter

        s, form = image_schedule(spec, context.target), op.form
        how = f"image|{form}|{s.instruction} {s.lanes} {s.columns}"
        weights = context.pack(op.filter, how, lambda w: pack_filter(plain_filter(w, form), spec, s))
        biases = [bias_operand(v, context) for v in present(op.bias)]
        return [op.result, op.input, weights, *biases, *op.extras]

    def scratch(self, spec: Image, target: CpuTarget) -> int:
        from glow_backends.cpu.kernels.conv.tile_conv import image_scratch

        return image_scratch(spec, target)

    def flops(self, spec: Image) -> int:
        return spec.flops
