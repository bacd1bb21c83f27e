"""arg_max and arg_min: the index of the largest or smallest element along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.reduce import reduced_shape


class ArgOp(PureOp):
    """An index along `axis`, i64; of equal elements the first, or the last where asked."""

    AXES = ("axis",)
    axis = int_prop()
    keepdims = bool_prop(False)
    select_last_index = bool_prop(False)
    LARGEST: ClassVar[bool]

    def infer(self) -> Sequence[Attribute]:
        shape, axis = shape_of(self.operands[0]), self.axis
        check_axis(self.name, axis, len(shape))
        if not shape[axis]:
            raise VerifyException(
                f"{self.name}: axis {axis} of {self.operands[0].type} has no elements"
                "; there must be at least one"
            )
        return [tensor(reduced_shape(shape, (axis,), self.keepdims), i64)]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [None]

    def reference(self, result: Array, input: Array) -> None:
        axis, pick = self.axis, np.argmax if self.LARGEST else np.argmin
        x = widen(input)
        if self.select_last_index:
            index = x.shape[axis] - 1 - pick(np.flip(x, axis), axis)
        else:
            index = pick(x, axis)
        result[...] = np.asarray(index).reshape(result.shape)


@graph_op
class ArgMaxOp(ArgOp):
    """The index of the largest element of the axis; a NaN counts as the largest."""

    name = "glow.arg_max"
    LARGEST = True
    input = operand_def(Tensor)
    result = result_def(Tensor)


@graph_op
class ArgMinOp(ArgOp):
    """The index of the smallest element of the axis; a NaN counts as the smallest."""

    name = "glow.arg_min"
    LARGEST = False
    input = operand_def(Tensor)
    result = result_def(Tensor)


_ODD = np.array([[1.0, np.nan, 2.0, np.nan], [-np.inf, 0.0, 1.0, np.inf]], np.float32)
_TIES = np.array([[3, 1, 3, 1], [0, 0, 5, 5]], np.int32)
SAMPLES = tuple(
    sample
    for op in (ArgMaxOp, ArgMinOp)
    for sample in (
        Sample(op, (random(3, 5),), {"axis": 1}, smooth=False),
        Sample(op, (random(2, 3, 4),), {"axis": 1, "keepdims": True}, smooth=False),
        Sample(op, (_TIES,), {"axis": 1}, smooth=False),
        Sample(op, (_TIES,), {"axis": 1, "select_last_index": True}, smooth=False),
        Sample(op, (_ODD,), {"axis": 1}, smooth=False),
        Sample(op, (_ODD,), {"axis": 1, "select_last_index": True}, smooth=False),
        Sample(op, (random(5, 40),), {"axis": 0}, smooth=False),
        *(
            Sample(op, (random(4, 9, dtype=kind, low=0, high=5),), {"axis": 1}, smooth=False)
            for kind in ("float64", "float16", "uint8", "int64")
        ),
    )
)
