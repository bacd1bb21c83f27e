"""conv_transpose: the adjoint of conv with respect to its input."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.products import exact
from glow_dialects.core.properties import ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, element_of, present, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.windows import ConvolutionOp, channels_first, channels_last, scatter_windows


def convolve_transposed(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    spatial: Sequence[int],
    group: int = 1,
    bias: Array | None = None,
) -> Array:
    """Transposed convolution of NCHW data with [C, O / group, *kernel] weights to `spatial` sizes."""
    batch, channels, *sizes = x.shape
    _, inner, *kernel = w.shape
    count, points = len(sizes), prod(sizes)
    rows = inner * prod(kernel)
    weights = exact(w).reshape(1, group, channels // group, rows).swapaxes(2, 3)
    columns = np.matmul(weights, exact(x).reshape(batch, group, channels // group, points))
    parts = columns.reshape(batch, group * inner, *kernel, *sizes)
    parts = np.moveaxis(parts, range(2 + count, 2 + 2 * count), range(2, 2 + count))
    y = scatter_windows(parts, spatial, strides, pads, dilations)
    y = y if bias is None else y + bias.reshape(1, -1, *(1,) * count)
    return y.astype(np.result_type(x, w), copy=False)


@graph_op
class ConvTransposeOp(ConvolutionOp):
    """Transposed convolution; output = (input - 1) stride + dilation (kernel - 1) + 1 + output_pads - pads.

    NCHW: input [N, C, *spatial], filter [C, O / group, *kernel]; NHWC: input [N, *spatial, C],
    filter [C, *kernel, O / group]. bias [O]. `output_pads` has one entry a spatial axis.
    """

    name = "glow.conv_transpose"
    LAYER = HOMOGENEOUS = True
    output_pads = ints_prop()

    def layer_axes(self) -> LayerAxes:
        axis = -1 if self.layout == "NHWC" else 1
        return LayerAxes(channels=axis, outputs=axis, inputs=0, groups=self.group)

    def infer(self) -> Sequence[Attribute]:
        self.check_filter()
        batch, channels, spatial = self.sizes(self.input)
        into, inner, kernel = self.sizes(self.filter)
        group, more, pads = self.group, self.output_pads, self.pads
        if into != channels or group < 1 or channels % group:
            raise VerifyException(
                f"{self.name}: {channels} input channels, the filter takes {into} in {group} groups; "
                "change the filter or the group"
            )
        count = len(spatial)
        if len(more) != count or min(more) < 0:
            raise VerifyException(
                f"{self.name}: output_pads {list(more)} for {count} spatial axes"
                "; give one per axis, below the stride"
            )
        for value in present(self.bias):
            if shape_of(value) != (inner * group,) or element_of(value) != element_of(self.input):
                raise VerifyException(
                    f"{self.name}: bias is {value.type} for {inner * group} channels"
                    "; give one number per channel"
                )
        steps = zip(spatial, self.strides, self.dilations, kernel, strict=True)
        sizes = [
            (s - 1) * t + d * (k - 1) + 1 + more[i] - pads[i] - pads[i + count]
            for i, (s, t, d, k) in enumerate(steps)
        ]
        if any(size < 1 for size in sizes):
            raise VerifyException(
                f"{self.name}: pads {list(pads)} leave an output of {sizes}; make the pads smaller"
            )
        return [tensor(self.shaped(batch, inner * group, sizes), element_of(self.input))]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        from glow_dialects.ops.conv import ConvOp
        from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp

        same = self.window_properties()
        cut = self._without_excess(dy, b)
        dx = b(ConvOp(cut, self.filter, None, **same))
        dw = b(ConvBackwardWeightsOp(cut, self.input, results=self.filter.type, **same))
        if self.bias is None:
            return [dx, dw]
        rank = len(shape_of(dy))
        axes = tuple(i for i in range(rank) if i != (rank - 1 if same["layout"] == "NHWC" else 1))
        return [dx, dw, b(ReduceSumOp(dy, axes=axes, keepdims=False))]

    def _without_excess(self, dy: SSAValue, b: Builder) -> SSAValue:
        """Drop end elements that would make the adjoint have more windows than the input has elements."""
        strides, more = self.strides, self.output_pads
        drop = [m - m % s for m, s in zip(more, strides, strict=True)]
        if not any(drop):
            return dy
        ends = list(shape_of(dy))
        for axis, count in zip(self.spatial_axes(len(ends)), drop, strict=True):
            ends[axis] -= count
        return b(SliceOp(dy, starts=(0,) * len(ends), ends=tuple(ends), steps=(1,) * len(ends)))

    def reference(self, result: Array, input: Array, filter: Array, bias: Array | None) -> None:
        last = self.layout == "NHWC"
        x, w = widen(input), widen(filter)
        spatial = result.shape[1:-1] if last else result.shape[2:]
        if last:
            x, w = channels_first(x), channels_first(w)
        window = (self.strides, self.pads, self.dilations)
        offset = None if bias is None else widen(bias)
        y = convolve_transposed(x, w, *window, spatial, self.group, offset)
        result[...] = channels_last(y) if last else y


SAMPLES: tuple[Sample, ...] = (
    Sample(ConvTransposeOp, (random(1, 2, 3, 4), random(2, 3, 3, 3), random(3)), {}),
    Sample(
        ConvTransposeOp,
        (random(2, 4, 3, 3), random(4, 2, 3, 2), None),
        {"strides": (2, 3), "pads": (1, 0, 1, 1), "output_pads": (1, 2), "group": 2},
    ),
    Sample(
        ConvTransposeOp,
        (random(1, 2, 4, 3), random(2, 1, 2, 3), random(1)),
        {"dilations": (2, 1), "strides": (1, 2), "output_pads": (1, 0)},
    ),
    Sample(ConvTransposeOp, (random(1, 2, 5), random(2, 3, 3), None), {"strides": (2,)}),
    # Results that no tap reaches are the bias, of channels that fill vectors too.
    Sample(
        ConvTransposeOp,
        (random(1, 16, 2, 2), random(16, 16, 1, 1), random(16)),
        {"strides": (2, 2), "output_pads": (1, 1)},
    ),
    Sample(
        ConvTransposeOp,
        (random(2, 16, 2, 2), random(16, 24, 2, 2), random(24)),
        {"strides": (3, 3), "output_pads": (1, 1)},
    ),
    Sample(
        ConvTransposeOp,
        (random(1, 3, 4, 4), random(4, 2, 2, 1), random(2)),
        {"layout": "NHWC", "strides": (2, 2), "group": 2},
    ),
)
