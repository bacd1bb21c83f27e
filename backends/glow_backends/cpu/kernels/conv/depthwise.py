"""Depthwise 2-D convolution on channel-blocked activations: one filter a channel, lanes channels.

A run of output pixels of one row keeps its sums in registers while the filter's taps pass. Filter
rows outside the image shorten a loop; runs whose filter columns leave it get code of their own.
The last run of a row takes pixels of the one before again: it is one of a few lengths, so that rows
of most lengths have the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum, split_index
from glow_backends.cpu.emit.register_blocks import Output
from glow_backends.cpu.emit.tile_runs import TileRun, columns_inside, tile_runs
from glow_backends.cpu.kernels.conv.blocked_conv import BlockedConv, direct_cycles
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_spec import (
    DirectConvSpec,
    filter_rows,
    open_runs,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import Array


def supports_depthwise(spec: DirectConvSpec) -> bool:
    """Whether every output channel has one input channel of its own."""
    return 1 < spec.group == spec.in_channels == spec.out_channels and not spec.plain_input


def pack_depthwise(weights: np.ndarray, spec: DirectConvSpec, target: CpuTarget) -> np.ndarray:
    """(C, 1, R, S) to (C / c, R, S, c), channels padded with zeros."""
    padded = pad_to(weights, 0, target.lanes)
    _, _, r, s = padded.shape
    return np.ascontiguousarray(padded.reshape(-1, target.lanes, r, s).transpose(0, 2, 3, 1))


_ALIKE = 1.05
"""Estimates that differ by no more are taken for equal: more widths then share their code."""
_SHORT_RUNS = (4, 8)
"""Pixels of the last run of a row, where that is not as long as the others."""


@dataclass(frozen=True)
class RowPlan:
    """`pixels` output pixels make a register block."""

    pixels: int
    runs: tuple[TileRun, ...]


def plan_row(spec: DirectConvSpec, target: CpuTarget) -> RowPlan:
    """Choose the register block, for the usual sizes."""
    usual = estimate(spec)
    plan = _planned_row(usual, target)
    if not isinstance(spec.out_size[1], Extent):
        return plan
    return replace(plan, runs=open_runs(spec, plan.pixels, _SHORT_RUNS))


@cache
def _planned_row(spec: DirectConvSpec, target: CpuTarget) -> RowPlan:
    """The register block leaves registers for loads."""
    width = spec.out_size[1]
    most = min(width, target.registers // 2 - 2)
    costs = {pixels: _row_cycles(spec, pixels) for pixels in range(1, most + 1)}
    pixels = max(p for p, cost in costs.items() if cost <= _ALIKE * min(costs.values()))
    last = width - _last_run(spec, pixels)
    return RowPlan(pixels, _shared_runs(spec, pixels, tile_runs(spec.row, pixels, last)))


def _last_run(spec: DirectConvSpec, pixels: int) -> int:
    """How many pixels the last run of a row has."""
    rest = spec.out_size[1] % pixels or pixels
    if spec.epilogue.inplace:  # no pixel is what it was any more when it has been computed
        return rest
    return next((short for short in _SHORT_RUNS if rest <= short < pixels), pixels)


def _row_cycles(spec: DirectConvSpec, pixels: int) -> float:
    """Estimated cycles of an output row in runs of so many pixels."""
    height, width = spec.kernel

    def cycles(count: int) -> float:
        reads = {p * spec.strides[1] + s * spec.dilations[1] for p in range(count) for s in range(width)}
        return height * (max(count * width, len(reads) + width) / 2 + 2) + 2 * count

    whole = ceil_div(spec.out_size[1], pixels) - 1
    return whole * cycles(pixels) + cycles(_last_run(spec, pixels))


def _shared_runs(spec: DirectConvSpec, pixels: int, runs: tuple[TileRun, ...]) -> tuple[TileRun, ...]:
    """The runs among those that rows of any length have, of which some are empty."""
    width = spec.out_size[1]
    if width <= pixels or spec.epilogue.inplace:
        return runs
    ends = (n for n in (pixels, *_SHORT_RUNS) if n <= pixels)
    kinds = [(pixels, columns_inside(spec.row, 0, pixels)), (pixels, None)]
    kinds += [(count, columns_inside(spec.row, width - count, count)) for count in ends]
    distinct = {(run.rows, run.columns): run for run in runs}
    if not distinct.keys() <= set(kinds):
        return runs
    return tuple(distinct.get(kind, TileRun(0, 0, *kind, 0)) for kind in dict.fromkeys(kinds))


class DepthwiseEmission:
    """The loops of a depthwise convolution around a run of pixels."""

    def __init__(self, k: KernelBuilder, spec: DirectConvSpec) -> None:
        self.x_kind: ir.Type = values.storage(spec.stored)
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        operands = iter(k.operands)
        self.y, self.x, self.w = next(operands), next(operands), next(operands)
        self.bias = next(operands) if spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(spec.epilogue.extras)]

    def emit(self) -> None:
        """Rows of one channel block, shared by the workers."""
        k, spec, lanes = self.k, self.spec, self.lanes
        blocks = ceil_div(spec.in_channels, lanes)
        plan = plan_row(spec, k.target)
        height, width = spec.out_size
        items = k.size(spec.batch * blocks * height)
        lines, planes, out_line = k.size(height), k.size(blocks), k.size(width)
        x_plane, x_line = k.size(spec.size[0] * spec.size[1]), k.size(spec.size[1])
        self.filter_line = k.size(spec.dilations[0] * spec.size[1] * lanes)
        runs = [(run, *map(k.size, (run.start, run.stop, run.last))) for run in plan.runs]
        with k.items(items) as item:
            plane, row = split_index(k, item, [0, lines])
            block = k.b.urem(k.i(plane), planes)
            top, bottom = filter_rows(k, spec, row)
            start = k.add(k.mul(row, spec.strides[0]), -spec.pads[0])
            x_row = k.add(k.mul(plane, x_plane), k.mul(start, x_line))
            y_row = k.mul(item, out_line)
            w = k.gep(self.w, k.mul(block, spec.kernel[0] * spec.kernel[1] * lanes))
            for run, run_start, run_stop, last in runs:
                with k.loop(run_start, run_stop) as tile:
                    pixel = minimum(k, k.mul(tile, plan.pixels), last)
                    left = k.add(k.mul(pixel, spec.strides[1]), -spec.pads[1])
                    x = k.gep(self.x, k.mul(k.add(x_row, left), lanes), self.x_kind)
                    sums = self._sums(run, x, w, top, bottom)
                    at = k.mul(k.add(y_row, pixel), lanes)
                    bias_at = k.mul(block, lanes)
                    if not run.once:
                        self.store(at, bias_at, sums)
                        continue
                    new = k.b.sub(k.i(k.mul(tile, plan.pixels)), k.i(pixel))
                    for place, value in enumerate(sums):
                        with k.b.if_then(k.b.icmp_signed(">=", k.i(place), new)):
                            self.store(k.add(at, place * lanes), bias_at, [value])

    def _sums(self, run: TileRun, x: ir.Value, w: ir.Value, first: Index, last: Index) -> list[ir.Value]:
        k, spec, lanes = self.k, self.spec, self.lanes
        columns = run.columns or ((0, run.rows),) * spec.kernel[1]
        x, w = k.settled(x), k.settled(w)

        def line(r: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            after = list(sums)
            x_row = k.gep(x, k.mul(r, self.filter_line), self.x_kind)
            w_row = k.gep(w, k.mul(r, spec.kernel[1] * lanes))
            read: dict[int, ir.Value] = {}
            for s, (low, high) in enumerate(columns):
                if low == high:
                    continue
                weight = k.load(w_row, s * lanes, lanes=lanes)
                for p in range(low, high):
                    at = (p * spec.strides[1] + s * spec.dilations[1]) * lanes
                    if at not in read:
                        read[at] = self.read(x_row, at)
                    after[p] = k.fma(read[at], weight, after[p])
            return after

        return k.reduce_loop(first, last, 1, [k.splat(0.0, lanes)] * run.rows, line)

    # --- overridden for integers -----------------------------------------------------------
    def read(self, row: ir.Value, at: int) -> ir.Value:
        """A pixel of a block, as floats."""
        return values.load(self.k, row, at, self.spec.stored, self.lanes)

    def store(self, at: Index, bias_at: Index, sums: Sequence[ir.Value]) -> None:
        """Finish the sums of a run of pixels and store them from element `at` of y on."""
        lanes, stored = self.lanes, self.spec.stored
        output = Output(
            self.y, at, len(sums), lanes, 0, lanes, self.bias, bias_at, self.extras, stored=stored
        )
        output.store(self.k, sums, 1, self.spec.epilogue)


def emit_depthwise(module: ir.Module, name: str, spec: DirectConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec; w is from `pack_depthwise`."""
    assert supports_depthwise(spec)
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target, sized=True)
    DepthwiseEmission(k, spec).emit()
    return k.finish()


class DepthwiseConv(BlockedConv[DirectConvSpec]):
    """Sums over the taps of the one filter of each channel."""

    ALGORITHM = "depthwise"
    emit = staticmethod(emit_depthwise)

    def spec(self, op: ConvOp, conv: DirectConvSpec, context: CallContext) -> DirectConvSpec:
        return conv

    def pack(self, weights: Array, spec: DirectConvSpec, target: CpuTarget) -> Array:
        return pack_depthwise(weights.astype(np.float32, copy=False), spec, target)

    def packing(self, spec: DirectConvSpec, target: CpuTarget) -> str:
        return ""

    def cycles(self, spec: DirectConvSpec, target: CpuTarget) -> float:
        return direct_cycles(spec, target)

    def flops(self, spec: DirectConvSpec) -> int:
        return spec.flops
