"""Operators that only move elements, as boxes of strided copies."""

from __future__ import annotations

import sys
from abc import abstractmethod

import numpy as np

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import values
from glow_backends.cpu.kernel import Kernel, O, known
from glow_backends.cpu.kernels.data import layouts
from glow_backends.cpu.kernels.data.copy import CopySpec, emit_copy
from glow_dialects.core.attributes import array_of
from glow_dialects.core.types import Array, dtype_of, typed
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.depth_to_space import DepthToSpaceOp, SpaceToDepthOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.tile import TileOp
from glow_dialects.ops.transpose import TransposeOp


class _Movement(Kernel[O, CopySpec]):
    """A result that is boxes of elements of the inputs."""

    emit = staticmethod(emit_copy)

    @abstractmethod
    def boxes(self, op: O, width: int) -> CopySpec | None:
        """Where the elements, of `width` bytes, come from and go to."""

    def match(self, op: O, context: CallContext) -> CopySpec | None:
        return self.boxes(op, values.size(dtype_name(op.operands[0]))) if known(op) else None

    def operands(self, op: O, spec: CopySpec, context: CallContext) -> list[Operand]:
        return list(op.operands[: 1 + spec.sources])


class Transpose(_Movement[TransposeOp]):
    """Axes in another order."""

    OPS = (TransposeOp,)

    def boxes(self, op: TransposeOp, width: int) -> CopySpec:
        return layouts.transpose_spec(shape(op.input), op.permutation, width)


class Slice(_Movement[SliceOp]):
    """A box of the input."""

    OPS = (SliceOp,)

    def boxes(self, op: SliceOp, width: int) -> CopySpec:
        return layouts.slice_spec(shape(op.input), op.starts, op.steps, shape(op.result), width)


class Tile(_Movement[TileOp]):
    """Copies side by side."""

    OPS = (TileOp,)

    def boxes(self, op: TileOp, width: int) -> CopySpec:
        return layouts.tile_spec(shape(op.input), op.repeats, width)


class Expand(_Movement[ExpandOp]):
    """Axes of size 1 repeated."""

    OPS = (ExpandOp,)

    def boxes(self, op: ExpandOp, width: int) -> CopySpec:
        return layouts.expand_spec(shape(op.input), shape(op.result), width)


class Flip(_Movement[FlipOp]):
    """Axes from the end to the start."""

    OPS = (FlipOp,)

    def boxes(self, op: FlipOp, width: int) -> CopySpec:
        return layouts.flip_spec(shape(op.input), op.axes, width)


class DepthToSpace(_Movement[DepthToSpaceOp]):
    """Channels as pixels."""

    OPS = (DepthToSpaceOp,)

    def boxes(self, op: DepthToSpaceOp, width: int) -> CopySpec:
        return layouts.depth_to_space_spec(shape(op.input), op.block, op.mode, width)


class SpaceToDepth(_Movement[SpaceToDepthOp]):
    """Pixels as channels."""

    OPS = (SpaceToDepthOp,)

    def boxes(self, op: SpaceToDepthOp, width: int) -> CopySpec:
        return layouts.space_to_depth_spec(shape(op.input), op.block, op.mode, width)


class Concat(_Movement[ConcatOp]):
    """Boxes one beside the other."""

    OPS = (ConcatOp,)

    def boxes(self, op: ConcatOp, width: int) -> CopySpec:
        return layouts.concat_spec([shape(v) for v in op.inputs], op.axis, width)


class Insert(_Movement[InsertOp]):
    """One part copied over another; only the part where the result lies in the memory of `big`."""

    OPS = (InsertOp,)

    def boxes(self, op: InsertOp, width: int) -> CopySpec:
        steps = op.steps or (1,) * len(shape(op.big))
        whole = op.result is not op.big
        return layouts.insert_spec(shape(op.big), shape(op.small), op.starts, steps, width, whole)

    def operands(self, op: InsertOp, spec: CopySpec, context: CallContext) -> list[Operand]:
        return [op.result, op.small] if op.result is op.big else [op.result, op.big, op.small]


class Pad(_Movement[PadOp]):
    """Borders of one number, or copies of inner elements."""

    OPS = (PadOp,)

    def boxes(self, op: PadOp, width: int) -> CopySpec | None:
        size, pads, mode = shape(op.input), op.pads, op.mode
        if mode == "constant":
            value = np.array(op.value).astype(dtype_of(op.input.type))
            fill = int.from_bytes(value.tobytes(), sys.byteorder)
            return layouts.pad_constant_spec(size, pads, width, fill)
        rows = zip(size, pads[: len(size)], pads[len(size) :], strict=True)
        runs = [layouts.padded_runs(n, a, z, mode) for n, a, z in rows]
        return layouts.lookup_spec(size, shape(op.result), runs, width)


class Literal(_Movement[LiteralOp]):
    """A copy of known values."""

    OPS = (LiteralOp,)

    def boxes(self, op: LiteralOp, width: int) -> CopySpec:
        array = _contents(op)
        return layouts.transpose_spec((array.size,), (0,), array.itemsize)

    def operands(self, op: LiteralOp, spec: CopySpec, context: CallContext) -> list[Operand]:
        return [op.result, table("literal", np.ascontiguousarray(_contents(op)))]


def _contents(op: LiteralOp) -> Array:
    array = array_of(op.properties["value"], typed(op.result))
    assert array is not None
    return array
