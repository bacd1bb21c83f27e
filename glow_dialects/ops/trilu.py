"""trilu: the upper or lower triangle of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.compare import CmpGeOp, CmpLeOp
from glow_dialects.ops.select import SelectOp


@graph_op
class TriluOp(PureOp):
    """Elements with column - row >= k (upper) or <= k (lower) of the last two axes, others 0."""

    name = "glow.trilu"
    INPLACE = ("input",)
    upper = bool_prop(True)
    k = int_prop(0)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        if len(shape_of(self.input)) < 2:
            raise VerifyException(f"glow.trilu: expected matrices, got {self.input.type}")
        return [self.input.type]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [b(TriluOp(grads[0], upper=self.upper, k=self.k))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        rows, columns = shape_of(self.input)[-2:]
        limits = b.constant(np.arange(rows).reshape(-1, 1) + self.k)
        places = b.constant(np.arange(columns))
        mask = b((CmpGeOp if self.upper else CmpLeOp)(places, limits))
        return [b(SelectOp(mask, self.input, b.scalar(0, self.input)))]

    def reference(self, result: Array, input: Array) -> None:
        rows, columns = input.shape[-2:]
        k = self.k
        mask = np.tri(rows, columns, k - 1 if self.upper else k, dtype=bool)
        result[...] = np.where(~mask if self.upper else mask, input, np.zeros((), input.dtype))


SAMPLES = tuple(
    Sample(TriluOp, (random(*shape),), {"upper": upper, "k": k})
    for upper in (True, False)
    for shape, k in (((4, 5), 0), ((2, 3, 3), 1), ((4, 3), -2), ((3, 3), 7))
)
