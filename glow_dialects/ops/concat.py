"""concat: tensors one after another along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.slice import SliceOp


@graph_op
class ConcatOp(PureOp):
    """The inputs joined along `axis`; their other dimensions and element types agree."""

    name = "glow.concat"
    MOVES_ELEMENTS = True
    AXES = ("axis",)
    axis = int_prop()
    inputs = var_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        parts = list(self.inputs)
        if not parts:
            raise VerifyException("glow.concat: needs at least one input; give one")
        first = parts[0]
        axis: int = self.axis
        shape = list(shape_of(first))
        check_axis(self.name, axis, len(shape))
        for part in parts[1:]:
            other = list(shape_of(part))
            fits = len(other) == len(shape) and other[:axis] == shape[:axis]
            if not fits or other[axis + 1 :] != shape[axis + 1 :] or element_of(part) != element_of(first):
                raise VerifyException(
                    f"glow.concat: {first.type} and {part.type} do not join along axis {axis}; "
                    "only that axis may differ"
                )
        shape[axis] = sum(shape_of(p)[axis] for p in parts)
        return [tensor(shape, element_of(first))]

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        counts = [shape_of(v)[form.axis] for v in self.inputs]
        if self.axis == form.axis and any(c % form.lanes for c in counts[:-1]):
            return None
        values = parts(self.inputs)
        if values is None:
            return None
        order = form.over_blocks(range(form.rank), form.axis, -1, -2)
        new = ConcatOp(values, axis=order.index(self.axis))
        channels = sum(counts) if self.axis == form.axis else form.channels
        return replace(form, value=new.result, channels=channels)

    def offsets(self) -> list[int]:
        """Where each input starts along the axis."""
        axis: int = self.axis
        return [*accumulate((shape_of(p)[axis] for p in self.inputs[:-1]), initial=0)]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        axis: int = self.axis
        out: list[SSAValue | None] = []
        for part, offset in zip(self.inputs, self.offsets(), strict=True):
            starts = [0] * len(shape_of(part))
            starts[axis] = offset
            out.append(b(SliceOp.window(dy, starts, shape_of(part))))
        return out

    def reference(self, result: Array, inputs: list[Array]) -> None:
        result[...] = np.concatenate(inputs, self.axis)


_N = random(3, 4, dtype="int32", low=0, high=9)
SAMPLES = (
    Sample(ConcatOp, ([random(2, 3), random(4, 3)],), {"axis": 0}),
    Sample(ConcatOp, ([random(2, 3, 2), random(2, 1, 2), random(2, 2, 2)],), {"axis": 1}),
    Sample(ConcatOp, ([random(2, 3)],), {"axis": 1}),
    *(
        Sample(ConcatOp, ([_N.astype(kind), _N[:, :1].astype(kind)],), {"axis": 1}, smooth=False)
        for kind in ("int8", "float16", "int64", "bool")
    ),
    Sample(ConcatOp, ([random(2, 0), random(2, 3)],), {"axis": 1}),
)
