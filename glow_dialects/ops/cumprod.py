"""cumprod: running products along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.instr_op import InstrOp, instr_op
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.arithmetic import DivOp, MulOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.slice import SliceOp


@graph_op
class CumprodOp(PureOp):
    """The product of the elements up to each one along `axis`, in the element type.

    `exclusive` leaves out the element itself; `reverse` multiplies from the end. The gradient needs
    elements other than 0.
    """

    name = "glow.cumprod"
    axis = int_prop()
    exclusive = bool_prop(False)
    reverse = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_axis(self.name, self.prop("axis"), len(shape_of(self.input)))
        return [self.input.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        # each result that holds an element changes by result / element
        dy = grads[0]
        assert dy is not None
        total = CumsumOp(
            b(MulOp(dy, self.result)),
            axis=self.prop("axis"),
            exclusive=self.prop("exclusive"),
            reverse=not self.prop("reverse"),
        )
        return [b(DivOp(b(total), self.input))]

    def _shifted(self, value: SSAValue, by: int, b: Builder) -> SSAValue:
        """`value` moved along the axis, away from where the products start, with ones behind it."""
        axis, shape = self.prop("axis"), list(shape_of(value))
        starts, pads = [0] * len(shape), [0] * (2 * len(shape))
        reverse = self.prop("reverse")
        starts[axis] = by if reverse else 0
        pads[axis + (len(shape) if reverse else 0)] = by
        shape[axis] -= by
        kept = b(SliceOp.window(value, starts, shape))
        return b(PadOp(kept, pads=tuple(pads), value=1.0))

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # products of 2, 4, 8, ... neighbours
        axis: int = self.prop("axis")
        size = shape_of(self.input)[axis]
        value = self.input
        if self.prop("exclusive") and size:
            value = self._shifted(value, 1, b)
        step = 1
        while step < size:
            value = b(MulOp(value, self._shifted(value, step, b)))
            step *= 2
        return [value]


@instr_op(of=CumprodOp)
class CumprodInstr(InstrOp):
    """np.cumprod."""

    def reference(self, result: Array, input: Array) -> None:
        axis = self.prop("axis")
        x = widen(input)
        x = np.moveaxis(np.flip(x, axis) if self.prop("reverse") else x, axis, 0)
        total = np.cumprod(x, axis=0, dtype=x.dtype)
        if self.prop("exclusive"):
            total = np.concatenate([np.ones_like(total[:1]), total[:-1]])
        total = np.moveaxis(total, 0, axis)
        result[...] = np.flip(total, axis) if self.prop("reverse") else total


SAMPLES = (
    *(
        Sample(
            CumprodOp,
            (random(3, 5, low=0.5, high=2),),
            {"axis": axis, "exclusive": exclusive, "reverse": reverse},
        )
        for axis, exclusive, reverse in (
            (0, False, False),
            (1, True, False),
            (1, False, True),
            (0, True, True),
        )
    ),
    Sample(CumprodOp, (random(5, dtype="int32", low=1, high=5),), {"axis": 0}, smooth=False),
    Sample(CumprodOp, (random(2, 0),), {"axis": 1, "exclusive": True}),
)
