"""select: condition ? lhs : rhs, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.elementwise import unbroadcast


@graph_op
class SelectOp(PureOp):
    """condition[i] ? lhs[i] : rhs[i], NumPy broadcasting over all three."""

    name = "glow.select"
    ONNX = "Where"
    TORCH = "where"
    STABLEHLO = "select"
    INPLACE = ("lhs", "rhs")
    DATA_PARALLEL = True
    condition = operand_def(Tensor)
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        if dtype_of(self.condition.type).kind != "b":
            raise VerifyException(f"glow.select: condition must be i1, got {self.condition.type}")
        if element_of(self.lhs) != element_of(self.rhs):
            raise VerifyException(
                f"glow.select: {self.lhs.type} and {self.rhs.type} differ in element type; cast one of them"
            )
        shape = broadcast_shapes(shape_of(self.condition), shape_of(self.lhs), shape_of(self.rhs))
        return [tensor(shape, element_of(self.lhs))]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        zero = b.scalar(0, dy)
        left = b(SelectOp(self.condition, dy, zero))
        right = b(SelectOp(self.condition, zero, dy))
        return [None, unbroadcast(left, self.lhs, b), unbroadcast(right, self.rhs, b)]

    def reference(self, result: Array, condition: Array, lhs: Array, rhs: Array) -> None:
        result[...] = np.where(condition, lhs, rhs)


_MASK = random(3, 4, dtype="bool")
_N = random(3, 4, dtype="int32", low=0, high=9)
SAMPLES = (
    *(
        Sample(SelectOp, (_MASK, _N.astype(kind), _N[:1].astype(kind)), smooth=False)
        for kind in ("float64", "float16", "int8", "uint8", "int64", "bool")
    ),
    Sample(SelectOp, (_MASK, random(3, 4), random(3, 4, seed=1))),
    Sample(SelectOp, (_MASK, random(4), random(2, 3, 1))),
    Sample(SelectOp, (random(3, 1, dtype="bool"), random(), random(3, 4))),
    Sample(
        SelectOp,
        (_MASK, random(3, 4, dtype="int32", low=0, high=9), random(4, dtype="int32", low=0, high=9)),
        smooth=False,
    ),
)
