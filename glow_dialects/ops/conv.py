"""conv: convolution over any number of spatial axes, strided, dilated, padded, grouped."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, present, shape_of
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.windows import ConvolutionOp, channels_first, channels_last, convolve


@graph_op
class ConvOp(ConvolutionOp):
    """result = conv(input, filter) + bias.

    NCHW: input [N, C, *spatial], filter [O, C / group, *kernel]; NHWC: input [N, *spatial, C],
    filter [O, *kernel, C / group]. bias [O]. Result of O channels in the input's layout.
    """

    name = "glow.conv"
    LAYER = HOMOGENEOUS = True
    QUANTIZED = QuantizedConvOp

    def layer_axes(self) -> LayerAxes:
        axis = -1 if self.layout == "NHWC" else 1
        return LayerAxes(channels=axis, outputs=0, inputs=axis, groups=self.group)

    def infer(self) -> Sequence[Attribute]:
        self.check_filter()
        out, inner, _ = self.sizes(self.filter)
        group = self.group
        channels = self.sizes(self.input)[1]
        if group < 1 or channels != inner * group:
            raise VerifyException(
                f"{self.name}: {channels} input channels, the filter takes {inner} in each of {group} groups"
                "; change the filter or the group"
            )
        if out % group:
            raise VerifyException(
                f"{self.name}: {out} output channels in {group} groups; the number must be divisible"
            )
        for value in present(self.bias):
            if shape_of(value) != (out,):
                raise VerifyException(
                    f"{self.name}: bias is {value.type} for {out} output "
                    "channels; give one number per channel"
                )
        return [self.window_result(self.input, self.kernel, out)]

    def iteration(self) -> Iteration | None:
        return self.conv_iteration()

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp

        same = self.window_properties()
        dw = b(ConvBackwardWeightsOp(self.input, dy, results=self.filter.type, **same))
        dx = self.input_gradient(dy, b)
        if self.bias is None:
            return [dx, dw]
        rank = len(shape_of(dy))
        axes = tuple(i for i in range(rank) if i != (rank - 1 if same["layout"] == "NHWC" else 1))
        return [dx, dw, b(ReduceSumOp(dy, axes=axes, keepdims=False))]

    def input_gradient(self, dy: SSAValue, b: Builder) -> SSAValue:
        """The gradient of the input from that of the result."""
        from glow_dialects.ops.conv_transpose import ConvTransposeOp

        spatial, pads, strides = self.sizes(self.input)[2], self.pads, self.strides
        count = len(spatial)
        # Elements behind the last window of each axis get gradient 0.
        rest = tuple(
            (spatial[i] + pads[i] + pads[i + count] - d * (k - 1) - 1) % strides[i]
            for i, (k, d) in enumerate(zip(self.kernel, self.dilations, strict=True))
        )
        return b(ConvTransposeOp(dy, self.filter, None, output_pads=rest, **self.window_properties()))

    def reference(self, result: Array, input: Array, filter: Array, bias: Array | None) -> None:
        last = self.layout == "NHWC"
        x, w = widen(input), widen(filter)
        if last:
            x, w = channels_first(x), channels_first(w)
        window = (self.strides, self.pads, self.dilations, self.group)
        y = convolve(x, w, *window, bias=None if bias is None else widen(bias))
        result[...] = channels_last(y) if last else y


SAMPLES: tuple[Sample, ...] = (
    Sample(ConvOp, (random(1, 2, 5, 6), random(3, 2, 3, 3), random(3)), {"pads": (1, 1, 1, 1)}),
    Sample(ConvOp, (random(2, 4, 7, 6), random(6, 2, 3, 2), None), {"strides": (2, 3), "group": 2}),
    Sample(
        ConvOp,
        (random(1, 2, 8, 7), random(2, 2, 3, 2), random(2)),
        {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (2, 3)},
    ),
    Sample(ConvOp, (random(1, 4, 5, 5), random(4, 1, 3, 3), None), {"pads": (1, 1, 1, 1), "group": 4}),
    Sample(ConvOp, (random(2, 3, 9), random(2, 3, 4), random(2)), {"strides": (2,), "pads": (1, 2)}),
    Sample(ConvOp, (random(1, 2, 4, 3, 4), random(2, 2, 2, 2, 3), None), {}),
    Sample(
        ConvOp,
        (random(1, 5, 6, 4), random(2, 3, 2, 2), random(2)),
        {"layout": "NHWC", "pads": (1, 0, 1, 0), "strides": (1, 2), "group": 2},
    ),
)
