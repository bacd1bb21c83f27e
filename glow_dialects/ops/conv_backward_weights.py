"""conv_backward_weights: the gradient of a convolution with respect to its filter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.products import matmul
from glow_dialects.core.properties import int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import WindowOp, channels_first, channels_last, output_sizes, windows


def filter_gradient(
    x: Array,
    dy: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
) -> Array:
    """[O, C / group, *kernel] = sum over batch and outputs of dy times the window of x that it met."""
    batch, channels = x.shape[:2]
    out, *outputs = dy.shape[1:]
    count, inner = len(kernel), channels // group
    view = windows(x, kernel, strides, pads, dilations)
    # [channels, *kernel, batch, *outputs]
    columns = np.moveaxis(view, (0, *range(2, 2 + count)), range(1 + count, 2 + 2 * count))
    points = batch * prod(outputs)
    columns = columns.reshape(group, inner * prod(kernel), points)
    rows = np.moveaxis(dy, 0, 1).reshape(group, out // group, points)
    return matmul(rows, columns.swapaxes(1, 2)).reshape(out, inner, *kernel)


@graph_op
class ConvBackwardWeightsOp(WindowOp):
    """The filter's gradient of conv(input, filter) for the result's gradient `grad`.

    The window properties and layouts are those of the convolution; the result type is the filter's.
    """

    name = "glow.conv_backward_weights"
    group = int_prop(1)
    input = operand_def(Tensor)
    grad = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        rank = len(shape_of(self.input))
        if len(shape_of(self.result)) != rank or len(shape_of(self.grad)) != rank:
            raise VerifyException(
                f"{self.name}: input {self.input.type}, gradient {self.grad.type} and filter "
                f"{self.result.type} differ in rank"
                "; all need one"
            )
        out, inner, kernel = self.sizes(self.result)
        self.check_window(rank, kernel)
        batch, channels, spatial = self.sizes(self.input)
        window = (kernel, self.strides, self.pads, self.dilations)
        wanted = tensor(self.shaped(batch, out, output_sizes(spatial, *window)), element_of(self.input))
        if channels != inner * self.group or self.grad.type != wanted:
            raise VerifyException(
                f"{self.name}: gradient {self.grad.type} is not of the convolution of {self.input.type} "
                f"by {self.result.type}"
                "; give the gradient of its result"
            )

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        # Linear in both: the convolution by the cotangent, and the input's gradient of that.
        dw = grads[0]
        assert dw is not None
        forward = b.insert(ConvOp(self.input, dw, None, **self.window_properties()))
        return [forward.input_gradient(self.grad, b), forward.results[0]]

    def reference(self, result: Array, input: Array, grad: Array) -> None:
        last = self.layout == "NHWC"
        x, dy = widen(input), widen(grad)
        kernel = result.shape[1:-1] if last else result.shape[2:]
        if last:
            x, dy = channels_first(x), channels_first(dy)
        window = (self.strides, self.pads, self.dilations)
        dw = filter_gradient(x, dy, kernel, *window, self.group)
        result[...] = channels_last(dw) if last else dw


SAMPLES: tuple[Sample, ...] = (
    Sample(
        ConvBackwardWeightsOp,
        (random(2, 2, 5, 6), random(2, 3, 3, 3)),
        {"strides": (2, 2), "pads": (1, 1, 1, 1)},
        results=tensor((3, 2, 3, 3)),
    ),
    Sample(
        ConvBackwardWeightsOp,
        (random(1, 4, 7), random(1, 2, 5)),
        {"group": 2, "dilations": (2,)},
        results=tensor((2, 2, 2)),
    ),
    Sample(
        ConvBackwardWeightsOp,
        (random(1, 4, 5, 2), random(1, 3, 4, 3)),
        {"layout": "NHWC"},
        results=tensor((3, 2, 2, 2)),
    ),
)
