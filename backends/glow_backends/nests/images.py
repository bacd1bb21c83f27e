"""Convolutions of images in channel blocks as kernels: products of pixels' channels, tap by tap.

The image is packed with its border, the channels of a pixel in one line. Where the filter steps over pixels,
pixels that are as far from a step go into an image of their own (a phase): each tap then reads neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, StringAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from glow_backends.nests.bodies import product_step, view
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.finish import Finish, finish_sums
from glow_backends.nests.operations import Loop, LoopsAttr, NestOp, PackOp
from glow_backends.nests.products import pack_columns, packed_shape, panel_places
from glow_backends.nests.schedule import Schedule, ScheduleAttr
from glow_dialects.core.types import Array
from glow_dialects.ops.windows import output_sizes


@dataclass(frozen=True)
class Image:
    """y = finish(conv(x, w)): x (N, C / c, H, W, c), y (N, K / c, OH, OW, c), blocks of `lanes` channels.

    w is what `pack_filter` makes of (K, C, R, S). Outside the image is 0. The views of the kernel: y, x, w
    and those of `finish`, of whose columns there are as many as channels in y's blocks.
    """

    batch: int
    channels: int
    out_channels: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    a: str = "u8"
    b: str = "i8"
    out: str = "u8"
    lanes: int = 16
    finish: Finish = field(default_factory=Finish)

    @cached_property
    def out_size(self) -> tuple[int, int]:
        """(OH, OW)."""
        height, width = output_sizes(self.size, self.kernel, self.strides, self.pads, self.dilations)
        return height, width

    @cached_property
    def blocks(self) -> tuple[int, int]:
        """Channel blocks of x and of y."""
        return -(-self.channels // self.lanes), -(-self.out_channels // self.lanes)

    @property
    def sums(self) -> str:
        """The element type of the sums."""
        return "f32" if self.a == "f32" else "i32"

    @property
    def flops(self) -> int:
        """Products and sums."""
        sums = self.batch * prod(self.out_size) * self.out_channels
        return 2 * sums * prod(self.kernel) * self.channels

    def tap(self, d: int, number: int) -> tuple[int, int]:
        """The phase that a tap reads, and how many of its pixels it lies behind, along an axis."""
        shift, phase = divmod(number * self.dilations[d], self.strides[d])
        return phase, shift

    @cached_property
    def phases(self) -> tuple[int, int]:
        """How many phases there are along each axis: one where every tap reads the first."""
        first, second = (
            self.strides[d] if any(self.tap(d, t)[0] for t in range(self.kernel[d])) else 1 for d in (0, 1)
        )
        return first, second

    @cached_property
    def packed_size(self) -> tuple[int, int]:
        """Rows and columns of a phase."""
        rows, columns = (self.out_size[d] + self.tap(d, self.kernel[d] - 1)[1] for d in (0, 1))
        return rows, columns

    def lines(self, s: Schedule) -> int:
        """Lines of an instruction's depth for the channels of a pixel; an odd number of them is stored."""
        return -(-self.channels // s.unit.k)

    def taps(self) -> list[int]:
        """How many pixels of the packed image each tap is behind the first one."""
        rows, columns = self.packed_size
        found: list[int] = []
        for r in range(self.kernel[0]):
            for t in range(self.kernel[1]):
                (py, y), (px, x) = self.tap(0, r), self.tap(1, t)
                found.append(((py * self.phases[1] + px) * rows + y) * columns + x)
        return found

    def shapes(self, s: Schedule) -> list[tuple[int, ...]]:
        """The shapes of the views."""
        (height, width), (into, out), f = self.out_size, self.blocks, self.finish
        y = (self.batch, out, height, width, self.lanes)
        depth = prod(self.kernel) * self.lines(s) * s.unit.k
        columns = out * self.lanes
        return [
            y,
            (self.batch, into, *self.size, self.lanes),
            packed_shape((), depth, columns, s),
            *([(columns,)] if f.bias else []),
            *([(columns,)] if f.factor else []),
            *([(3,)] if f.limits else []),
            *([y] * f.extras),
        ]


def pack_filter(weights: Array, p: Image, s: Schedule) -> Array:
    """(K, C, R, S) for a schedule: the channels of each tap filled up to whole instructions."""
    out, channels, *taps = weights.shape
    whole = np.zeros((*taps, p.lines(s) * s.unit.k, p.blocks[1] * p.lanes), weights.dtype)
    whole[:, :, :channels, :out] = weights.transpose(2, 3, 1, 0)
    return pack_columns(whole.reshape(-1, whole.shape[-1]), s)


_LOOPS = ("n", "y", "x", "q", "r", "t", "c")


def describe_image(p: Image, s: Schedule, name: str = "image") -> KernelOp:
    """The kernel of a convolution."""
    unit, f = s.unit, p.finish
    kinds = [p.out, p.a, unit.b, *([p.sums] * f.bias), *(["f32"] * (bool(f.factor) + f.limits))]
    kinds += [p.out] * f.extras
    block = Block(arg_types=[view(n, kind) for n, kind in zip(p.shapes(s), kinds, strict=True)])
    y, x, w, *extras = block.args
    pack = _pack(p, s, x)
    n, oy, ox, q, r, t, c = (AffineExpr.dimension(i) for i in range(len(_LOOPS)))
    (rows, columns), (sy, sx), (dy, dx) = p.phases, p.strides, p.dilations
    phase = ((r * dy) % sy) * columns + (t * dx) % sx if rows * columns > 1 else AffineExpr.constant(0)
    a_map = (n, phase, oy + (r * dy) // sy, ox + (t * dx) // sx, c // unit.k, c % unit.k)
    depth = (r * p.kernel[1] + t) * (p.lines(s) * unit.k) + c
    out = (n, q // p.lanes, oy, ox, q % p.lanes)
    maps = [a_map, panel_places(q, depth, s)]
    maps += [(q,)] * (f.bias + bool(f.factor))
    maps += [(AffineExpr.constant(i),) for i in range(3)] if f.limits else []
    maps += [out] * (f.extras + 1)
    views = [*extras[: f.bias + bool(f.factor)]]
    views += [extras[len(views)]] * 3 if f.limits else []
    sizes = p.batch, *p.out_size, p.blocks[1] * p.lanes, *p.kernel, p.channels
    loops = [Loop(v, size, i > 3) for i, (v, size) in enumerate(zip(_LOOPS, sizes, strict=True))]
    finish = finish_sums(f, (p.sums, p.out))
    nest = NestOp(
        operands=[[], [pack.result, w], [*views, *extras[len(extras) - f.extras :]], y],
        regions=[product_step(unit.a, unit.b, p.sums), [finish] if finish is not None else []],
        properties={
            "loops": LoopsAttr(tuple(loops)),
            "maps": ArrayAttr([AffineMapAttr(AffineMap(len(_LOOPS), 0, tuple(m))) for m in maps]),
        },
    )
    block.add_ops([pack, nest])
    properties = {"sym_name": StringAttr(name), "schedule": ScheduleAttr(s)}
    return KernelOp(regions=[Region(block)], properties=properties)


def _pack(p: Image, s: Schedule, x: SSAValue) -> PackOp:
    """The image with its border, in phases, the channels of a pixel in lines."""
    unit, (rows, columns) = s.unit, p.phases
    n, phase, h, w, line, e = (AffineExpr.dimension(i) for i in range(6))
    channel = line * unit.k + e
    py, px = (phase // columns, phase % columns) if rows * columns > 1 else (AffineExpr.constant(0),) * 2
    places = (h * p.strides[0] + py - p.pads[0], w * p.strides[1] + px - p.pads[1])
    index = AffineMap(6, 0, (n, channel // p.lanes, *places, channel % p.lanes))
    shape = p.batch, rows * columns, *p.packed_size, p.lines(s) // 2 * 2 + 1, unit.k
    return PackOp.create(
        operands=[x],
        result_types=[view(shape, unit.a, unit.alignment)],
        properties={"index": AffineMapAttr(index)},
    )
