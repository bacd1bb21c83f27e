"""slice: every step-th element between bounds, on every axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again
from glow_dialects.core.properties import check_length, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor


@graph_op
class SliceOp(PureOp):
    """Elements start, start + step, ... before end of each axis; one entry an axis.

    Bounds are explicit: 0 <= start < size and 0 <= end <= size for positive steps; for negative
    ones -1 <= end, where -1 stands before element 0. An empty range gives size 0, wherever it is.
    """

    name = "glow.slice"
    MOVES_ELEMENTS = True
    starts = ints_prop()
    ends = ints_prop()
    steps = ints_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    @staticmethod
    def window(value: SSAValue, starts: Sequence[int], sizes: Sequence[int]) -> SliceOp:
        """The block of `sizes` elements from `starts` on."""
        ends = tuple(a + n for a, n in zip(starts, sizes, strict=True))
        return SliceOp(value, starts=tuple(starts), ends=ends, steps=(1,) * len(ends))

    def infer(self) -> Sequence[Attribute]:
        shape = shape_of(self.input)
        for what in ("starts", "ends", "steps"):
            check_length(self.name, what, getattr(self, what), len(shape))
        for axis, (size, start, end, step) in enumerate(zip(shape, *self.bounds(), strict=True)):
            if step == 0:
                raise VerifyException(f"glow.slice: the step of axis {axis} is 0; give another step")
            empty = (end <= start) if step > 0 else (end >= start)
            least = 0 if step > 0 else -1
            bounded = least <= start <= size and least <= end <= size
            if not bounded or not (empty or 0 <= start < size):
                raise VerifyException(
                    f"glow.slice: {start} .. {end} by {step} leaves axis {axis} of {size} elements"
                    "; keep within the axis"
                )
        return [tensor(self.sizes(), element_of(self.input))]

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        starts, ends, steps = self.starts, self.ends, self.steps
        return again(self, x, size, b, starts=(0, *starts), ends=(size, *ends), steps=(1, *steps))

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        (starts, ends, steps), lanes = self.bounds(), form.lanes
        low, high, step = (v[form.axis] for v in (starts, ends, steps))
        if step != 1 or low % lanes or (high % lanes and high != form.channels) or high <= low:
            return None
        new = SliceOp(
            form.value,
            starts=form.over_blocks(starts, low // lanes, 0, 0),
            ends=form.over_blocks(ends, -(-high // lanes), lanes, 1),
            steps=form.over_blocks(steps, 1, 1, 1),
        )
        return replace(form, value=new.result, channels=high - low)

    def bounds(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(starts, ends, steps)."""
        return self.starts, self.ends, self.steps

    def sizes(self) -> list[int]:
        """The shape of the result."""
        return [_count(*bounds) for bounds in zip(*self.bounds(), strict=True)]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.flip import FlipOp
        from glow_dialects.ops.insert import InsertOp

        starts, _, steps = self.bounds()
        mirrored = tuple(i for i, step in enumerate(steps) if step < 0)
        if mirrored:
            dy = b(FlipOp(dy, axes=mirrored))
        # the last element of a backward walk is the first of the forward one
        first = tuple(
            start if step > 0 else start + (size - 1) * step
            for start, step, size in zip(starts, steps, self.sizes(), strict=True)
        )
        zeros = b.splat(0, self.input)
        if 0 in self.sizes():
            return [zeros]
        return [b(InsertOp(zeros, dy, starts=first, steps=tuple(abs(s) for s in steps)))]

    def reference(self, result: Array, input: Array) -> None:
        if result.size:
            result[...] = input[indices(self.starts, self.ends, self.steps)]


def _count(start: int, end: int, step: int) -> int:
    """How many steps lead from the start to before the end."""
    return max(0, -(-(end - start) // step) if step > 0 else -(-(start - end) // -step))


def indices(starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """Bounds of glow.slice as Python slices; an end before element 0 is None."""
    return tuple(slice(a, None if e < 0 else e, s) for a, e, s in zip(starts, ends, steps, strict=True))


_X = random(4, 6)
_N = random(3, 4, dtype="int32", low=0, high=9)
SAMPLES = (
    Sample(SliceOp, (_X,), {"starts": (1, 0), "ends": (3, 6), "steps": (1, 1)}),
    Sample(SliceOp, (_X,), {"starts": (0, 1), "ends": (4, 6), "steps": (3, 2)}),
    Sample(SliceOp, (_X,), {"starts": (3, 5), "ends": (-1, 0), "steps": (-1, -2)}),
    Sample(SliceOp, (_X,), {"starts": (2, 2), "ends": (2, 6), "steps": (1, 1)}),
    *(
        Sample(
            SliceOp, (_N.astype(kind),), {"starts": (0, 3), "ends": (3, -1), "steps": (2, -1)}, smooth=False
        )
        for kind in ("int8", "float16", "int64", "bool")
    ),
    Sample(
        SliceOp,
        (random(2, 3, 4, dtype="int32", low=-9, high=9),),
        {"starts": (0, 1, 3), "ends": (2, 3, 0), "steps": (1, 1, -1)},
        smooth=False,
    ),
)
