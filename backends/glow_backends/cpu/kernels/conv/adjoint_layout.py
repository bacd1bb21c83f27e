"""Transposed convolutions as convolutions: one set of output channels a phase of the stride, then a shuffle.

Along one axis y[o] = sum of x[i] w[k] over o = i stride + k dilation - pad. With o = q stride + r a tap k
belongs to one phase r and reads x[q + offset]: each phase is a convolution of stride 1, and all of them
are one convolution with the taps that a phase lacks as zeros, or one convolution each where those zeros
would cost more. The phases then interleave to pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.conv.choice import algorithm_cycles
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as BlockedConvOp
from glow_backends.cpu.kernels.conv.conv_ops import PlaneConvOp
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.plane_layout import plain_image
from glow_backends.cpu.kernels.data.blocking_ops import UnblockOp
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.types import Array, dtype_of, present, shape_of, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.regions import Region


@dataclass(frozen=True)
class Axis:
    """A spatial axis: (phase, offset) of each tap, and the window that holds all offsets."""

    size: int
    result: int
    stride: int
    taps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, size: int, result: int, kernel: int, stride: int, pad: int, dilation: int) -> Axis:
        """The axis of a transposed convolution that makes `result` elements of `size`."""
        shifts = [k * dilation - pad for k in range(kernel)]
        return cls(size, result, stride, tuple((s % stride, (s % stride - s) // stride) for s in shifts))

    @property
    def low(self) -> int:
        """The first offset."""
        return min(o for _, o in self.taps)

    @property
    def window(self) -> int:
        """Taps of the convolution of stride 1."""
        return max(o for _, o in self.taps) - self.low + 1

    def phase(self, number: int) -> Axis:
        """The axis with the taps of one phase; its window never has to be cut, and has a tap."""
        offsets = [o for p, o in self.taps if p == number] or [0]
        low, high = min(0, *offsets), max(self.size - self.steps, *offsets)
        return replace(self, taps=tuple((number, o) for o in range(low, high + 1)))

    @property
    def steps(self) -> int:
        """Elements of a phase."""
        return -(-self.result // self.stride)

    @property
    def pads(self) -> tuple[int, int]:
        """(before, after) the input; negative where it would have to be cut."""
        return -self.low, self.steps - 1 + self.low + self.window - self.size


def phase_filters(array: Array, rows: Axis, columns: Axis, group: int = 1) -> Array:
    """[C, K / group, R, S], transposed, as [row phases, column phases, K, C / group, window]."""
    split = array.reshape(group, -1, *array.shape[1:]).swapaxes(1, 2)
    array = split.reshape(-1, *split.shape[2:])
    out, inner = array.shape[:2]
    shape = (rows.stride, columns.stride, out, inner, rows.window, columns.window)
    phases = np.zeros(shape, array.dtype)
    for y, (row, down) in enumerate(rows.taps):
        for x, (column, right) in enumerate(columns.taps):
            phases[row, column, :, :, down - rows.low, right - columns.low] = array[:, :, y, x]
    return phases


def conv_transpose(op: ConvTransposeOp, region: Region, target: CpuTarget) -> bool:
    """conv_transpose(x, w) -> shuffle(conv(x, filters of all phases)), one or two spatial axes."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    group = op.group
    if rank not in (3, 4) or op.predicate is not None:
        return False
    if not all(region.is_known(v) for v in (op.filter, *present(op.bias))):
        return False
    array, bias = region.array(op.filter), [region.array(v) for v in present(op.bias)]
    if array is None or dtype_of(op.input.type) != np.float32:
        return False
    array = np.moveaxis(array, -1, 1) if last else array
    array = array[:, :, None, :] if rank == 3 else array
    channels = array.shape[1] * group
    row = np.zeros(channels, np.float32) if not bias or bias[0] is None else bias[0]
    sizes, results = op.sizes(op.input)[2], op.sizes(op.result)[2]
    window = (op.strides, op.pads[: len(sizes)], op.dilations)
    axes = [Axis.of(*a) for a in zip(sizes, results, op.kernel, *window, strict=True)]
    if rank == 3:
        axes.insert(0, Axis.of(1, 1, 1, 1, 0, 1))
    if any(p < 0 for a in axes for p in a.pads):
        return False
    filters, phases = phase_filters(array, axes[0], axes[1], group), axes[0].stride * axes[1].stride
    if group > 1 and channels % target.lanes:
        return False
    if channels * 2 > target.lanes:
        return _blocked_phases(op, region, axes, filters, row, target)
    if channels * phases * 2 <= target.lanes and axes[1].steps >= target.lanes:
        value = _plane(op, region, axes, filters, row)
    else:
        form = region.blocked(op.input, last)
        if form is None:
            return False
        wide = filters.reshape(-1, *filters.shape[3:])
        y = _convolution(region, form.value, axes, wide, np.tile(row, phases))
        value = region.add(UnblockOp(y, channels=channels * phases))
    region.plains[op.result] = _plain_pixels(op, region, axes, value, channels)
    return True


def _plane(op: ConvTransposeOp, region: Region, axes: Sequence[Axis], filters: Array, row: Array) -> SSAValue:
    """All phases of few channels, a vector of pixels at a time."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    image = plain_image(op.input, region, last, rank)
    (top, bottom), (left, right) = axes[0].pads, axes[1].pads
    if top or bottom or left or right:
        image = region.add(PadOp(image, pads=(0, 0, top, left, 0, 0, bottom, right)))
    weights = region.weight(filters.reshape(-1, *filters.shape[3:]), "phases")
    bias = region.weight(np.tile(row, axes[0].stride * axes[1].stride), "bias")
    return region.add(PlaneConvOp(image, weights, bias, []))


def _convolution(
    region: Region, source: SSAValue, axes: Sequence[Axis], filters: Array, bias: Array, group: int = 1
) -> SSAValue:
    """The convolution of stride 1 on a blocked value; filters OIHW."""
    (top, bottom), (left, right) = axes[0].pads, axes[1].pads
    window: dict[str, Any] = {"strides": (1, 1), "pads": (top, left, bottom, right), "dilations": (1, 1)}
    if group > 1:
        single = group == len(filters) and filters.shape[1] == 1
        window |= {"group": group, "algorithm": "depthwise" if single else "direct"}
    weights = region.weight(np.ascontiguousarray(filters), "phases")
    vector = region.weight(np.ascontiguousarray(bias, np.float32), "bias")
    return region.add(BlockedConvOp(source, weights, vector, [], lanes=region.lanes, **window))


def _plain_pixels(
    op: ConvTransposeOp, region: Region, axes: Sequence[Axis], value: SSAValue, channels: int
) -> SSAValue:
    """[N, phases channels, rows, columns] as the result's pixels."""
    batch, rows, columns = shape_of(value)[0], *axes
    split = (batch, rows.stride, columns.stride, channels, rows.steps, columns.steps)
    last = op.layout == "NHWC"
    order = (0, 4, 1, 5, 2, 3) if last else (0, 3, 4, 1, 5, 2)
    image = (rows.steps * rows.stride, columns.steps * columns.stride)
    moved = region.add(TransposeOp(region.add(ReshapeOp.to(value, split)), permutation=order))
    shape = (batch, *image, channels) if last else (batch, channels, *image)
    value = region.add(ReshapeOp.to(moved, shape))
    cut = (rows.result, columns.result)
    if cut != image:
        size = (batch, *cut, channels) if last else (batch, channels, *cut)
        value = region.add(SliceOp.window(value, (0,) * 4, size))
    return value if value.type == op.result.type else region.add(ReshapeOp(value, results=op.result.type))


def _spec(op: ConvTransposeOp, axes: Sequence[Axis], filters: int, group: int) -> DirectConvSpec:
    """The convolution of stride 1 of some phases, which have so many filters together."""
    batch, channels, _ = op.sizes(op.input)
    (top, bottom), (left, right) = axes[0].pads, axes[1].pads
    return DirectConvSpec(
        batch,
        channels * group // op.group,
        filters,
        (axes[0].size, axes[1].size),
        (axes[0].window, axes[1].window),
        pads=(top, left, bottom, right),
        group=group,
    )


def _apart(
    op: ConvTransposeOp, axes: Sequence[Axis], filters: Array, target: CpuTarget
) -> list[tuple[Axis, Axis, Array]] | None:
    """(rows, columns, filters) of each phase, where the phases are faster one by one."""
    (rows, columns), group, count = axes, op.group, filters.shape[2]
    parts: list[tuple[Axis, Axis, Array]] = []
    for y in range(rows.stride):
        for x in range(columns.stride):
            own = rows.phase(y), columns.phase(x)
            taps = tuple(
                slice(p.low - a.low, p.low - a.low + p.window) for p, a in zip(own, axes, strict=True)
            )
            parts.append((*own, filters[y, x][:, :, *taps]))

    def cycles(axes: Sequence[Axis], filters: int, group: int) -> float:
        return min(algorithm_cycles(_spec(op, axes, filters, group), target).values())

    together = cycles(axes, len(parts) * count, len(parts) * group if group > 1 else 1)
    one_by_one = sum(cycles((r, c), count, group) for r, c, _ in parts)
    return parts if one_by_one < together else None


def _blocked_phases(
    op: ConvTransposeOp,
    region: Region,
    axes: Sequence[Axis],
    filters: Array,
    row: Array,
    target: CpuTarget,
) -> bool:
    """Each phase fills whole blocks of channels; the result stays blocked."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    form = region.blocked(op.input, last)
    if form is None:
        return False
    batch, (rows, columns), lanes = shape_of(op.input)[0], axes, region.lanes
    channels, phases = filters.shape[2], rows.stride * columns.stride
    blocks = -(-channels // lanes)
    missing = blocks * lanes - channels
    wide = np.pad(filters, [(0, 0), (0, 0), (0, missing), (0, 0), (0, 0), (0, 0)])
    vector = np.pad(row, (0, missing))
    source, group = form.value, op.group
    parts = _apart(op, axes, wide, target)
    if parts is not None:
        convs = [_convolution(region, source, (r, c), own, vector, group) for r, c, own in parts]
        y, order = region.add(ConcatOp(convs, axis=0)), (2, 3, 4, 0, 5, 1, 6)
        shape = (rows.stride, columns.stride, batch, blocks, rows.steps, columns.steps, lanes)
    else:
        if group > 1:  # groups read channels of their own: each phase has a copy
            group *= phases
            source = region.add(PermuteChannelsOp(source, order=tuple(range(form.channels)) * phases))
        joined = wide.reshape(-1, *wide.shape[3:])
        y = _convolution(region, source, axes, joined, np.tile(vector, phases), group)
        shape = (batch, rows.stride, columns.stride, blocks, rows.steps, columns.steps, lanes)
        order = (0, 3, 4, 1, 5, 2, 6)
    moved = region.add(TransposeOp(region.add(ReshapeOp.to(y, shape)), permutation=order))
    image = (batch, blocks, rows.steps * rows.stride, columns.steps * columns.stride, lanes)
    value = region.add(ReshapeOp.to(moved, image))
    cut = (batch, blocks, rows.result, columns.result, lanes)
    if cut != image:
        value = region.add(SliceOp.window(value, (0,) * 5, cut))
    assert value.type == tensor(cut, np.float32)
    region.remember(op.result, Blocked(value, channels, rank, last))
    return True
