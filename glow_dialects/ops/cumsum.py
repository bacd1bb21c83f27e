"""cumsum: running sums along an axis."""

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
from glow_dialects.ops.elementwise import widen


@graph_op
class CumsumOp(PureOp):
    """The sum of the elements up to each one along `axis`, in the element type.

    `exclusive` leaves out the element itself; `reverse` sums from the end.
    """

    name = "glow.cumsum"
    axis = int_prop()
    exclusive = bool_prop(False)
    reverse = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_axis(self.name, self.prop("axis"), len(shape_of(self.input)))
        return [self.input.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        mirrored = CumsumOp(
            grads[0],
            axis=self.prop("axis"),
            exclusive=self.prop("exclusive"),
            reverse=not self.prop("reverse"),
        )
        return [b(mirrored)]


@instr_op(of=CumsumOp)
class CumsumInstr(InstrOp):
    """np.cumsum."""

    def reference(self, result: Array, input: Array) -> None:
        axis = self.prop("axis")
        x = widen(input)
        x = np.moveaxis(np.flip(x, axis) if self.prop("reverse") else x, axis, 0)
        total = np.cumsum(x, axis=0, dtype=x.dtype)
        if self.prop("exclusive"):
            total = np.concatenate([np.zeros_like(total[:1]), total[:-1]])
        total = np.moveaxis(total, 0, axis)
        result[...] = np.flip(total, axis) if self.prop("reverse") else total


SAMPLES = (
    *(
        Sample(CumsumOp, (random(3, 4),), {"axis": axis, "exclusive": exclusive, "reverse": reverse})
        for axis, exclusive, reverse in (
            (0, False, False),
            (1, True, False),
            (1, False, True),
            (0, True, True),
        )
    ),
    Sample(CumsumOp, (random(5, dtype="int32", low=-9, high=9),), {"axis": 0}, smooth=False),
    *(
        Sample(CumsumOp, (random(3, 5, dtype=kind, low=0, high=5),), {"axis": 1}, smooth=False)
        for kind in ("float64", "float16", "uint8", "int64")
    ),
    Sample(CumsumOp, (random(2, 0),), {"axis": 1, "exclusive": True}),
)
