"""glow-tile: instructions as loops over tiles in a device's memory, by what operators say of their loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.errors import CompileError, UnsupportedError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.iteration import Along, Axes, Iteration
from glow_dialects.core.types import UniformQuantizedType, dtype_of, element_of, shape_of
from glow_dialects.instr.memory import instr_functions
from glow_dialects.instr.spaces import MAIN, space_of
from glow_dialects.instr.strides import dense_strides, strides_of
from glow_passes.contract import InstructionPass
from glow_passes.instr.tiles import Place, Tiler


class Cut(NamedTuple):
    """Tiles of a loop that are alike: where each begins, its size, and its windows' paddings at both ends."""

    starts: range
    size: int
    low: int
    high: int


class Spot(NamedTuple):
    """A tile of a loop: where it begins, a number or the index of a loop around it, and the cut it is of."""

    at: int | SSAValue
    cut: Cut


class Plan:
    """How an instruction can be cut: its loops, and its buffers with what they follow."""

    def __init__(self, op: InstrOp, iteration: Iteration) -> None:
        self.op = op
        self.iteration = iteration
        outs = op.written()
        values = [*outs, *op.operands[len(outs) :]]
        self.buffers = list(zip(values, (*iteration.results, *iteration.operands), strict=True))
        fixed = {axis.loop for value, axes in self.buffers for axis in _by_scale(value, axes)}
        #: The loops that may be cut, outer ones first.
        self.loops = [i for i in iteration.parallel if i not in fixed]

    @staticmethod
    def of(op: InstrOp) -> Plan | None:
        """The plan of an instruction; None where nothing is known of its loops."""
        iteration = op.iteration()
        if iteration is None or 0 in iteration.sizes or any(0 in shape_of(v) for v in op.operands):
            return None
        dense = all(strides_of(v.type) is None and space_of(v) == MAIN for v in op.operands)
        return Plan(op, iteration) if dense else None

    def bytes(self, sizes: Sequence[int]) -> int:
        """What the largest tiles of all buffers take, for a tile of some size in each loop."""
        return sum(prod(self.shape(v, axes, sizes)) * width_of(v) for v, axes in self.buffers)

    def shape(self, value: SSAValue, axes: Axes, sizes: Sequence[int]) -> list[int]:
        """The most of a buffer that a tile touches."""
        return [
            whole if axis is None else min(whole, axis.stride * (sizes[axis.loop] - 1) + axis.window)
            for whole, axis in zip(shape_of(value), axes, strict=True)
        ]

    def fitting(self, room: int) -> tuple[int, ...] | None:
        """The largest tiles of at most `room` bytes, cut at the outermost loops; None: there are none."""
        sizes = list(self.iteration.sizes)
        for loop in self.loops:
            if self.bytes(sizes) <= room:
                break
            low, high = 1, sizes[loop]
            while low < high:  # the largest that fits, or 1
                sizes[loop] = middle = (low + high + 1) // 2
                low, high = (middle, high) if self.bytes(sizes) <= room else (low, middle - 1)
            sizes[loop] = low if self.has_elements(loop, self.cuts(loop, low)) else self.iteration.sizes[loop]
        return tuple(sizes) if self.bytes(sizes) <= room else None

    def cuts(self, loop: int, size: int) -> list[Cut]:
        """The tiles of a loop, those that are alike and follow each other together."""
        whole = self.iteration.sizes[loop]
        if loop not in self.loops:
            size = whole
        cuts: list[Cut] = []
        for start in range(0, whole, size):
            count = min(size, whole - start)
            low = high = 0
            for axis, n in self.windows(loop):
                low = max(0, axis.pad - axis.stride * start)
                high = max(0, axis.stride * (start + count - 1) - axis.pad + axis.window - n)
            last = cuts[-1] if cuts else None
            if last is not None and last[1:] == (count, low, high):
                cuts[-1] = last._replace(starts=range(last.starts.start, start + size, size))
            else:
                cuts.append(Cut(range(start, start + size, size), count, low, high))
        return cuts

    def has_elements(self, loop: int, cuts: Sequence[Cut]) -> bool:
        """Whether every tile touches more of each buffer than padding."""
        return all(
            axis.stride * (cut.size - 1) + axis.window > cut.low + cut.high
            for axis, _ in self.windows(loop)
            for cut in cuts
        )

    def windows(self, loop: int) -> list[tuple[Along, int]]:
        """The dimensions of operands, with their sizes, whose windows reach into padding along a loop."""
        if loop not in self.iteration.padded:
            return []
        operands = self.buffers[len(self.iteration.results) :]
        pairs = [pair for v, axes in operands for pair in zip(axes, shape_of(v), strict=True)]
        return [(axis, n) for axis, n in pairs if axis is not None and axis.loop == loop]


def _by_scale(value: SSAValue, axes: Axes) -> list[Along]:
    """The loop along which a buffer's type has a scale for each index: a part of it is of another type."""
    kind = element_of(value)
    if not isinstance(kind, UniformQuantizedType) or kind.axis.data < 0:
        return []
    axis = axes[kind.axis.data]
    return [] if axis is None else [axis]


def width_of(value: SSAValue) -> int:
    """Bytes of an element."""
    return dtype_of(value.type).itemsize


def tile(op: InstrOp, space: str, sizes: Sequence[int]) -> bool:
    """max_pool @out y, @in x -> for %i { load a part of x; max_pool of the parts; store a part of y }

    `sizes` of a tile are by the loops of `op.iteration()`. Whether the instruction was tiled; it stays as it
    is where nothing is known of its loops, or a tile would be of padding alone.
    """
    plan = Plan.of(op)
    if plan is None or len(sizes) != len(plan.iteration.sizes):
        return False
    cuts = [plan.cuts(loop, max(1, size)) for loop, size in enumerate(sizes)]
    if not all(plan.has_elements(loop, alike) for loop, alike in enumerate(cuts)):
        return False
    tiles = _Tiles(plan, space, cuts)
    tiles.write(0, {}, {})
    tiles.replace()
    return True


def fitting_tile(op: InstrOp, room: int) -> tuple[int, ...] | None:
    """The sizes of the largest tiles that take at most `room` bytes in all; None where there are none."""
    plan = Plan.of(op)
    return None if plan is None else plan.fitting(room)


def tile_to_fit(op: InstrOp, space: str, room: int) -> bool:
    """`tile` by the largest tiles of at most `room` bytes in all.

    CompileError where the smallest are larger than that: the instruction, its bytes and the room.
    """
    plan = Plan.of(op)
    if plan is None:
        return False
    if (sizes := plan.fitting(room)) is None:
        least = plan.bytes([1 if i in plan.loops else n for i, n in enumerate(plan.iteration.sizes)])
        raise CompileError(
            f"{op.name} of {op.operands[0].type}: the smallest tile takes {least} bytes, and memory "
            f"'{space}' has {room}; exclude the operator in supports(), or give it more memory"
        )
    return tile(op, space, sizes)


class _Tiles(Tiler):
    """Writes the loops of one instruction."""

    def __init__(self, plan: Plan, space: str, cuts: Sequence[Sequence[Cut]]) -> None:
        super().__init__(plan.op, space)
        self.plan = plan
        self.cuts = cuts
        self.outs = len(plan.op.written())

    def write(self, loop: int, spots: dict[int, Spot], loaded: dict[int, SSAValue]) -> None:
        """The loops from one on; an operand is loaded in the innermost loop that it follows."""
        if loop == 0:
            loaded = self.loads(-1, spots, loaded)
        if loop == len(self.cuts):
            return self.body(spots, loaded)
        for cut in self.cuts[loop]:
            for index in self.loops([cut.starts]):
                here = spots | {loop: Spot(index, cut)}
                self.write(loop + 1, here, self.loads(loop, here, loaded))

    def loads(self, loop: int, spots: dict[int, Spot], loaded: dict[int, SSAValue]) -> dict[int, SSAValue]:
        """The parts of operands whose innermost loop this is."""
        found = dict(loaded)
        for number, (value, axes) in enumerate(self.plan.buffers):
            if number >= self.outs and max((a.loop for a in axes if a is not None), default=-1) == loop:
                dims, places = self.part(value, axes, spots, self.plan.iteration.padded)
                found[number] = self.load(value, dims, places)
        return found

    def body(self, spots: dict[int, Spot], loaded: dict[int, SSAValue]) -> None:
        """The instruction on tiles."""
        op = self.plan.op
        parts = [self.part(v, axes, spots) for v, axes in self.plan.buffers[: self.outs]]
        outs = [
            self.buffer([n for n, _ in dims], element_of(value))
            for (value, _), (dims, _) in zip(self.plan.buffers, parts, strict=False)
        ]
        properties = dict(op.properties)
        if padded := self.plan.iteration.padded:
            ends = [[spots[i].cut[place] for i in padded] for place in (2, 3)]
            properties |= op.attributes_of({"pads": (*ends[0], *ends[1])})
        for name, loop in self.plan.iteration.counts:
            properties |= op.attributes_of({name: spots[loop].cut.size})
        operands = [*outs, *(loaded[n] for n in range(self.outs, len(self.plan.buffers)))]
        copy = type(op).create(operands=operands, properties=properties, attributes=dict(op.attributes))
        copy.location = op.location
        self.add(copy)
        for (value, _), (dims, places), out in zip(self.plan.buffers, parts, outs, strict=False):
            self.copy(self.view(value, dims, places), out)

    def part(
        self, value: SSAValue, axes: Axes, spots: dict[int, Spot], padded: Sequence[int] = ()
    ) -> tuple[tuple[tuple[int, int], ...], list[Place]]:
        """Sizes and strides of what tiles touch of a buffer, and where it begins."""
        dims: list[tuple[int, int]] = []
        places: list[Place] = []
        for axis, whole, stride in zip(axes, shape_of(value), dense_strides(shape_of(value)), strict=True):
            if axis is None:
                dims.append((whole, stride))
                continue
            at, cut = spots[axis.loop]
            low, high = (cut.low, cut.high) if axis.loop in padded else (0, 0)
            dims.append((axis.stride * (cut.size - 1) + axis.window - low - high, stride))
            places += [(at, axis.stride * stride), (low - axis.pad, stride)]
        return tuple(dims), places


@dataclass(frozen=True)
class TilePass(InstructionPass):
    """Instructions become loops over tiles of at most `bytes` in `memory`, those `only` of some names or all.

    `only=softmax` is `glow_instr.softmax`; names of other dialects stand in quotes. Nothing happens to those
    whose operators do not tell their loops.
    """

    name = "glow-tile"
    memory: str
    bytes: int
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise UnsupportedError(f"bytes={self.bytes}: tiles take a positive number of bytes")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            for step in list(function.block.ops):
                if isinstance(step, InstrOp) and (not self.only or self.names(step) & {*self.only}):
                    tile_to_fit(step, self.memory, self.bytes)

    def names(self, op: InstrOp) -> set[str]:
        """How `only` may call an instruction."""
        return {op.name, op.name.removeprefix("glow_instr.")}


__all__ = ["TilePass", "fitting_tile", "tile", "tile_to_fit"]
