"""2-D convolution of few output channels on plain NCHW arrays: lanes are neighbouring pixels.

A register block holds all output channels of a run of pixels; each step of the reduction multiplies
a few vectors of the image by one broadcast weight a channel. The image comes padded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum, split_index
from glow_backends.cpu.emit.register_blocks import Block, Loop, fits, multiply, zeros
from glow_backends.cpu.emit.windows import pair
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.conv.conv_ops import PlaneConvOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import present


@dataclass(frozen=True)
class PlaneConvSpec:
    """y = steps(conv(x, w) + bias), f32, without pads; the stride along rows is 1.

    Each channel of a signal may be `phases` channels here, its phases under a stride along rows;
    sums then take the taps in the signal's order. x is (N, C, H, W), y and the extras
    (N, K, OH, OW) with OW at least the lanes; w is what `pack_plane` made of (K, C, R, S), bias
    (K). Operands: y, x, w, [bias], [extras]; no extra may be the memory of y.
    """

    batch: int
    in_channels: int
    out_channels: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    row_stride: int = 1
    dilations: tuple[int, int] = (1, 1)
    phases: int = 1
    epilogue: Epilogue = field(default_factory=Epilogue)

    @property
    def out_size(self) -> tuple[int, int]:
        """(OH, OW)."""
        reach = [d * (r - 1) + 1 for d, r in zip(self.dilations, self.kernel, strict=True)]
        return (self.size[0] - reach[0]) // self.row_stride + 1, self.size[1] - reach[1] + 1


def pack_plane(weights: np.ndarray, phases: int = 1) -> np.ndarray:
    """(K, C P, R, S) to (C, R, S, P, K): the broadcast weights of one step lie together."""
    out, channels, rows, columns = weights.shape
    split = weights.reshape(out, channels // phases, phases, rows, columns)
    return np.ascontiguousarray(split.transpose(1, 3, 4, 2, 0))


def plane_block(spec: PlaneConvSpec, target: CpuTarget) -> Block:
    """All output channels times as many vectors of pixels as registers and the row allow."""
    width = spec.out_size[1]
    vectors = 1
    while vectors < 8 and fits(Block(spec.out_channels, vectors + 1), target):
        vectors += 1
    while vectors > 1 and vectors * target.lanes > width:
        # Fewer steps where each is a limit of the widths that a program is for.
        vectors = vectors // 2 if isinstance(width, Extent) else vectors - 1
    return Block(spec.out_channels, vectors)


def supports_plane(spec: PlaneConvSpec, target: CpuTarget) -> bool:
    """Whether the channels fit the registers and a row has a whole vector."""
    return spec.out_size[1] >= target.lanes and fits(Block(spec.out_channels, 1), target)


def emit_conv_plane(module: ir.Module, name: str, spec: PlaneConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec."""
    assert supports_plane(spec, target)
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target, sized=True)
    operands = iter(k.operands)
    y, x, w = next(operands), next(operands), next(operands)
    bias = next(operands) if spec.epilogue.bias else None
    extras = [next(operands) for _ in range(spec.epilogue.extras)]
    block, lanes = plane_block(spec, target), target.lanes
    height, width = spec.out_size
    run = block.vectors * lanes
    count, p = spec.out_channels, spec.phases
    plane, row_size, out_plane = k.size(prod(spec.size)), k.size(spec.size[1]), k.size(height * width)
    image_size, out_size = k.size(spec.in_channels * prod(spec.size)), k.size(count * height * width)
    rows, out_row, last = k.size(height), k.size(width), k.size(width - run)
    # One weight of every channel, then the pixels under it.
    nest = [
        Loop(spec.in_channels // p, prod(spec.kernel) * p * count, k.mul(p, plane)),
        Loop(spec.kernel[0], spec.kernel[1] * p * count, k.mul(spec.dilations[0], row_size)),
        Loop(spec.kernel[1], p * count, spec.dilations[1]),
        Loop(p, count, plane),
    ]

    def tile(image: Index, row: Index, column: Index) -> None:
        at = k.index((image, image_size), (k.mul(row, spec.row_stride), row_size), (column, 1))
        start, none = k.gep(x, at), zeros(k, count * block.vectors)
        sums = multiply(k, w, range(count), start, block.vectors, nest, none)
        out = k.index((image, out_size), (row, out_row), (column, 1))
        for number, value in enumerate(sums):
            channel, vector = divmod(number, block.vectors)
            place = k.add(k.add(out, k.mul(channel, out_plane)), vector * lanes)

            def read(extra: ir.Value, place: Index = place) -> ir.Value:
                return k.load(extra, place, lanes=lanes)

            own = None if bias is None else k.splat(k.load(bias, channel), lanes)
            k.store(spec.epilogue.apply(k, value, own, extras, read), y, place)

    with k.items(k.size(spec.batch * height)) as item:
        image, row = split_index(k, item, [0, rows])
        with k.loop(0, k.size(ceil_div(width, run))) as number:
            # The last run starts early enough to end with the row.
            tile(image, row, minimum(k, k.mul(number, run), last))
    return k.finish()


class PlaneConv(Kernel[PlaneConvOp, PlaneConvSpec]):
    """A plain convolution of few output channels."""

    OPS = (PlaneConvOp,)
    emit = staticmethod(emit_conv_plane)

    def match(self, op: PlaneConvOp, context: CallContext) -> PlaneConvSpec | None:
        size, (out, inner, *kernel) = shape(op.input), shape(op.filter)
        spec = PlaneConvSpec(
            batch=size[0],
            in_channels=inner,
            out_channels=out,
            size=(size[2], size[3]),
            kernel=(kernel[0], kernel[1]),
            row_stride=op.row_stride,
            dilations=pair(op.dilations, 1),
            phases=op.phases,
            epilogue=Epilogue(bias=op.bias is not None, program=program_of(op.body)),
        )
        return spec if supports_plane(spec, context.target) else None

    def operands(self, op: PlaneConvOp, spec: PlaneConvSpec, context: CallContext) -> list[Operand | None]:
        filters = context.pack(op.filter, f"plane|{spec.phases}", lambda w: pack_plane(w, spec.phases))
        return [op.result, op.input, filters, *present(op.bias), *op.extras]

    def flops(self, spec: PlaneConvSpec) -> int:
        outputs = spec.batch * spec.out_channels * prod(spec.out_size)
        return 2 * outputs * spec.in_channels * prod(spec.kernel)
