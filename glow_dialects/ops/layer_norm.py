"""layer_norm, rms_norm: normalisation over the trailing axes of each element before them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.iteration import Iteration, pointwise
from glow_dialects.core.properties import check_axis, float_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, element_of, present, shape_of
from glow_dialects.ops.elementwise import unbroadcast, widen
from glow_dialects.ops.windows import check_float


class _Trailing(PureOp):
    """Statistics over the axes from `axis` on; scale and bias broadcast to the input."""

    axis = int_prop()
    epsilon = float_prop(1e-5)
    input = operand_def(Tensor)
    scale = opt_operand_def(Tensor)

    @property
    def axes(self) -> tuple[int, ...]:
        """The normalised axes."""
        return tuple(range(self.axis, len(shape_of(self.operands[0]))))

    def iteration(self) -> Iteration | None:
        shape = shape_of(self.operands[0])
        return pointwise(shape, map(shape_of, self.operands), self.axes) if len(self.results) == 1 else None

    def infer(self) -> Sequence[Attribute]:
        input = self.operands[0]
        check_float(self.name, input)
        check_axis(self.name, self.axis, len(shape_of(input)))
        for value in (v for v in self.operands[1:] if v is not self.predicate):
            if element_of(value) != element_of(input):
                raise VerifyException(
                    f"{self.name}: {value.type} for an input {input.type}; give one of its element type"
                )
            if broadcast_shapes(shape_of(value), shape_of(input)) != shape_of(input):
                raise VerifyException(
                    f"{self.name}: {value.type} does not broadcast to {input.type}"
                    "; give the shape of the last axes"
                )
        return [input.type]

    def affine(self, unit: Term) -> Term:
        """unit * scale (+ bias)."""
        return unit if self.scale is None else unit * self.scale


@graph_op
class LayerNormOp(_Trailing):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, statistics over the axes from `axis` on."""

    name = "glow.layer_norm"
    INPLACE = ("input",)
    CHEAP = True
    bias = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def affine(self, unit: Term) -> Term:
        scaled = super().affine(unit)
        return scaled if self.bias is None else scaled + self.bias

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return [self.affine(Term(self.input, b).standardized(self.axes, self.epsilon)).value]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # unit = (x - mean) / deviation, g = outG scale; inG = (g - mean(g) - unit mean(g unit)) / deviation
        x, grad, axes = Term(self.input, b), Term(dy, b), self.axes
        centred = x - x.mean(axes)
        variance = (centred * centred).mean(axes)
        inverse = 1.0 / (variance + self.epsilon).sqrt()
        unit = centred * inverse
        g = grad if self.scale is None else grad * self.scale
        inner = g - g.mean(axes) - unit * (g * unit).mean(axes)
        scales = [(grad * unit).sum_to(shape_of(v)).value for v in present(self.scale)]
        return [(inner * inverse).value, *scales, *(unbroadcast(dy, v, b) for v in present(self.bias))]

    def reference(self, result: Array, input: Array, scale: Array | None, bias: Array | None) -> None:
        x = widen(input)
        axes = tuple(range(self.axis, x.ndim))
        centred = x - x.mean(axis=axes, keepdims=True)
        variance = (centred * centred).mean(axis=axes, keepdims=True)
        y = centred / np.sqrt(variance + x.dtype.type(self.epsilon))
        y = y if scale is None else y * widen(scale)
        result[...] = y if bias is None else y + widen(bias)


@graph_op
class RmsNormOp(_Trailing):
    """x / sqrt(mean of squares + epsilon) * scale, the mean over the axes from `axis` on."""

    name = "glow.rms_norm"
    INPLACE = ("input",)
    CHEAP = True
    result = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x = Term(self.input, b)
        squares = (x * x).mean(self.axes)
        return [self.affine(x / (squares + self.epsilon).sqrt()).value]

    def reference(self, result: Array, input: Array, scale: Array | None) -> None:
        x = widen(input)
        axes = tuple(range(self.axis, x.ndim))
        squares = (x * x).mean(axis=axes, keepdims=True)
        y = x / np.sqrt(squares + x.dtype.type(self.epsilon))
        result[...] = y if scale is None else y * widen(scale)


SAMPLES: tuple[Sample, ...] = (
    Sample(LayerNormOp, (random(3, 6), random(6), random(6, seed=1)), {"axis": 1}),
    Sample(LayerNormOp, (random(2, 3, 4), random(3, 4), None), {"axis": 1, "epsilon": 0.1}),
    Sample(LayerNormOp, (random(2, 3, 4), None, None), {"axis": 2}),
    Sample(RmsNormOp, (random(3, 6), random(6)), {"axis": 1}),
    Sample(RmsNormOp, (random(2, 3, 4), None), {"axis": 1}),
)
