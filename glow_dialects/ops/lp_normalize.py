"""lp_normalize: division by the p-norm along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import check_float


@graph_op
class LpNormalizeOp(PureOp):
    """x / (sum |x|^p)^(1/p) along `axis`, p 1 or 2; 0 where the norm is 0."""

    name = "glow.lp_normalize"
    INPLACE = ("input",)
    axis = int_prop()
    p = int_prop(2)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        check_axis(self.name, self.axis, len(shape_of(self.input)))
        if self.p not in (1, 2):
            raise VerifyException(f"{self.name}: p is {self.p}, expected 1 or 2")
        return [self.input.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x, axes = Term(self.input, b), (self.axis,)
        total = (abs(x) if self.p == 1 else x * x).sum(axes)
        total = total.equals(0).where(1.0, total)
        return [(x / (total if self.p == 1 else total.sqrt())).value]

    def reference(self, result: Array, input: Array) -> None:
        x, axis = widen(input), self.axis
        if self.p == 1:
            norm = np.abs(x).sum(axis=axis, keepdims=True)
        else:
            norm = np.sqrt((x * x).sum(axis=axis, keepdims=True))
        result[...] = x / np.where(norm == 0, x.dtype.type(1), norm)


_HOLED = random(3, 4)
_HOLED[1] = 0
SAMPLES: tuple[Sample, ...] = (
    Sample(LpNormalizeOp, (random(3, 4),), {"axis": 1}),
    Sample(LpNormalizeOp, (random(2, 3, 4),), {"axis": 0, "p": 1}),
    Sample(LpNormalizeOp, (_HOLED,), {"axis": 1}, smooth=False),
)
