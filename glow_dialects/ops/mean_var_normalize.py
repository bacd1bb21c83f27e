"""mean_var_normalize: mean 0 and variance 1 over any axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_axes, float_prop, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, element_of, shape_of
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import check_float


@graph_op
class MeanVarNormalizeOp(PureOp):
    """(x - mean) / (sqrt(variance) + epsilon) over `axes` (ONNX: epsilon 1e-9)."""

    name = "glow.mean_var_normalize"
    INPLACE = ("input",)
    axes = ints_prop()
    epsilon = float_prop(1e-9)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        check_axes(self.name, self.axes, len(shape_of(self.input)))
        return [self.input.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x, axes = Term(self.input, b).widened(), self.axes
        centred = x - x.mean(axes)
        deviation = (centred * centred).mean(axes).sqrt()
        return [(centred / (deviation + self.epsilon)).cast(element_of(self.result)).value]

    def reference(self, result: Array, input: Array) -> None:
        x, axes = widen(input), self.axes
        centred = x - x.mean(axis=axes, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=axes, keepdims=True))
        result[...] = centred / (deviation + x.dtype.type(self.epsilon))


SAMPLES: tuple[Sample, ...] = (
    Sample(MeanVarNormalizeOp, (random(2, 3, 4, 2),), {"axes": (0, 2, 3)}),
    Sample(MeanVarNormalizeOp, (random(3, 5),), {"axes": (1,), "epsilon": 0.01}),
)
