"""Layouts, convolutions, pools and products: the layers of most networks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.emit.filters import FORMS, plain_filter, sizes_of
from glow_backends.cpu.fused_body import EpilogueOp, check_columns, run_epilogue
from glow_dialects.core.blocks import block_channels, blocked_shape, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import (
    bool_prop,
    check_choice,
    int_prop,
    ints_prop,
    opt_float_prop,
    str_prop,
)
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, element_of, shape_of, tensor
from glow_dialects.ops.windows import LAYOUTS, channels_first, channels_last, convolve, output_sizes

ALGORITHMS = ("direct", *(f"winograd{tile}" for tile in range(2, 8)), "depthwise")


@graph_op
class BlockOp(PureOp):
    """NCHW (NHWC) to N x C/c x H x W x c; lanes without a channel are zero."""

    name = "glow_cpu.block"
    lanes = int_prop()
    layout = str_prop("NCHW")
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "layout", self.layout, LAYOUTS)
        shape = shape_of(self.input)
        if len(shape) != 4:
            raise VerifyException(f"{self.name}: expected a tensor of rank 4, got {self.input.type}")
        if self.layout == "NHWC":
            shape = (shape[0], shape[3], shape[1], shape[2])
        return [tensor(blocked_shape(shape, self.lanes), element_of(self.input))]

    def reference(self, result: Array, input: Array) -> None:
        plain = channels_first(input) if self.layout == "NHWC" else input
        result[...] = block_channels(plain, self.lanes)


@graph_op
class UnblockOp(PureOp):
    """N x C/c x H x W x c to NCHW (NHWC) of `channels` channels."""

    name = "glow_cpu.unblock"
    channels = int_prop()
    layout = str_prop("NCHW")
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "layout", self.layout, LAYOUTS)
        batch, blocks, height, width, lanes = blocked(self, self.input)
        channels = self.channels
        if -(-channels // lanes) != blocks:
            raise VerifyException(
                f"{self.name}: {channels} channels are not {blocks} blocks of {lanes}; they must be as many"
            )
        last = self.layout == "NHWC"
        shape = (batch, height, width, channels) if last else (batch, channels, height, width)
        return [tensor(shape, element_of(self.input))]

    def reference(self, result: Array, input: Array) -> None:
        plain = unblock_channels(input, self.channels)
        result[...] = channels_last(plain) if self.layout == "NHWC" else plain


def blocked(op: PureOp, value: Any) -> tuple[int, int, int, int, int]:
    """(N, C/c, H, W, c) of a blocked operand; a VerifyException for any other shape."""
    shape = shape_of(value)
    if len(shape) != 5:
        raise VerifyException(f"{op.name}: expected a blocked tensor of rank 5, got {value.type}")
    return shape[0], shape[1], shape[2], shape[3], shape[4]


@graph_op
class ConvOp(EpilogueOp):
    """body(conv(input, filter) + bias, extras) on blocked activations.

    `input` is blocked, or NCHW (few channels, algorithm direct). `filter` has axes in the order of
    `form` (with the inputs first it stands for the adjoint's), `bias` has one value an output channel,
    and may be filled up to whole vectors.
    `packed` is the filter in the algorithm's own order, where it is not a constant. The result has the
    filter's element type: on 16-bit floats a plain image is f32.
    """

    name = "glow_cpu.conv"
    INPLACE = ("extras",)
    algorithm = str_prop("direct")
    lanes = int_prop()
    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    group = int_prop(1)
    form = str_prop("OIHW")
    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    packed = opt_operand_def(Tensor)
    result = result_def(Tensor)

    @property
    def plain_input(self) -> bool:
        """Whether the input is NCHW."""
        return len(shape_of(self.input)) == 4

    def work(self) -> int:
        filter = shape_of(self.filter)
        plain = 2 * prod(shape_of(self.result)) * prod(filter) // max(filter[self.form.index("O")], 1)
        if not self.algorithm.startswith("winograd"):
            return plain
        # For a tile of outputs, a product for each element of its window; nothing is told of the transforms.
        tile, (_, _, kernel) = int(self.algorithm[-1]), sizes_of(filter, self.form)
        saved = prod(tile * k if k > 1 else 1 for k in kernel)
        return plain * prod(tile + k - 1 if k > 1 else 1 for k in kernel) // saved

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "algorithm", self.algorithm, ALGORITHMS)
        check_choice(self.name, "form", self.form, FORMS)
        shape = shape_of(self.input) if self.plain_input else blocked(self, self.input)
        out, inner, kernel = sizes_of(shape_of(self.filter), self.form)
        channels, lanes = inner * self.group, self.lanes
        if (shape[1] if self.plain_input else shape[1] * lanes) not in range(channels, channels + lanes):
            raise VerifyException(
                f"{self.name}: {self.input.type} does not hold {channels} channels"
                "; give as many as there are, or fewer in the last block"
            )
        window = (self.strides, self.pads, self.dilations)
        sizes = output_sizes(shape[2:4], kernel, *window)
        return [tensor((shape[0], -(-out // lanes), *sizes, lanes), element_of(self.filter))]

    def reference(
        self,
        result: Array,
        input: Array,
        filter: Array,
        bias: Array | None,
        extras: Sequence[Array],
        packed: Array | None,
    ) -> None:
        filter = plain_filter(filter, self.form)
        out, group = filter.shape[0], self.group
        if input.ndim == 5:
            input = unblock_channels(input, filter.shape[1] * group)
        window = (self.strides, self.pads, self.dilations)
        y = convolve(input, filter, *window, group, None if bias is None else bias[:out])
        plain = [unblock_channels(e, out) for e in extras]
        y = run_epilogue(self.body, y, plain)
        result[...] = block_channels(y, self.lanes)


@graph_op
class PlaneConvOp(EpilogueOp):
    """body(conv(input, filter) + bias, extras) of few output channels on NCHW, without pads.

    The stride along rows is 1; one of `phases` has become as many channels. `filter` is OIHW; each
    binary step takes the next of `extras`.
    """

    name = "glow_cpu.plane_conv"
    row_stride = int_prop(1)
    phases = int_prop(1)
    dilations = ints_prop((1, 1))
    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        batch, channels, *size = shape_of(self.input)
        out, inner, *kernel = shape_of(self.filter)
        if channels != inner:
            raise VerifyException(
                f"{self.name}: {channels} channels, the filter takes {inner}; they must be as many"
            )
        window = ((self.row_stride, 1), (0, 0, 0, 0), self.dilations)
        return [tensor((batch, out, *output_sizes(size, kernel, *window)), element_of(self.input))]

    def reference(
        self, result: Array, input: Array, filter: Array, bias: Array | None, extras: Sequence[Array]
    ) -> None:
        strides = (self.row_stride, 1)
        y = convolve(input, filter, strides, (0, 0, 0, 0), self.dilations, 1, bias)
        result[...] = run_epilogue(self.body, y, extras)


@graph_op
class PoolOp(PureOp):
    """Max or average pooling on blocked activations (ONNX semantics; pads begin then end)."""

    name = "glow_cpu.pool"
    mode = str_prop()
    kernel = ints_prop()
    strides = ints_prop()
    pads = ints_prop()
    count_include_pad = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_choice(self.name, "mode", self.mode, ("max", "avg"))
        batch, blocks, height, width, lanes = blocked(self, self.input)
        window = (self.kernel, self.strides, self.pads)
        sizes = output_sizes((height, width), *window, (1, 1))
        return [tensor((batch, blocks, *sizes, lanes), element_of(self.input))]

    def reference(self, result: Array, input: Array) -> None:
        kernel, strides, pads = self.kernel, self.strides, self.pads
        largest = self.mode == "max"
        width = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)]

        def windows(x: Array, fill: float) -> Array:
            whole = np.pad(x, width, constant_values=fill)
            view = np.lib.stride_tricks.sliding_window_view(whole, tuple(kernel), axis=(2, 3))
            return view[:, :, :: strides[0], :: strides[1]]

        if largest:
            result[...] = windows(input, -np.inf).max(axis=(-2, -1))
            return
        padding = int(self.count_include_pad)
        counts = windows(np.ones_like(input), padding).sum(axis=(-2, -1))
        result[...] = windows(input, 0).sum(axis=(-2, -1)) / np.maximum(counts, 1)


@graph_op
class GemmOp(EpilogueOp):
    """body(scale * op(a) @ op(b) + bias, extras); op transposes the last two axes where asked.

    The axes before the last two broadcast as in numpy.matmul; `bias` has one value a column, each
    of `extras` the result's type.
    """

    name = "glow_cpu.gemm"
    transpose_a = bool_prop(False)
    transpose_b = bool_prop(False)
    scale = opt_float_prop()
    a = operand_def(Tensor)
    b = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        (*a_batch, m, k), (*b_batch, rows, n) = shape_of(self.a), shape_of(self.b)
        if self.transpose_a:
            m, k = k, m
        if self.transpose_b:
            rows, n = n, rows
        if k != rows:
            raise VerifyException(
                f"{self.name}: {k} columns of a meet {rows} rows of b; they must be as many"
            )
        return [tensor((*broadcast_shapes(a_batch, b_batch), m, n), element_of(self.a))]

    def work(self) -> int:
        return 2 * prod(shape_of(self.result)) * shape_of(self.a)[-2 if self.transpose_a else -1]

    def check(self) -> None:
        check_columns(self)
        super().check()

    def reference(
        self, result: Array, a: Array, b: Array, bias: Array | None, extras: Sequence[Array]
    ) -> None:
        left = np.swapaxes(a, -1, -2) if self.transpose_a else a
        right = np.swapaxes(b, -1, -2) if self.transpose_b else b
        y = np.matmul(left, right)
        if self.scale is not None:
            y = y * y.dtype.type(self.scale)
        y = y if bias is None else y + bias
        result[...] = run_epilogue(self.body, y, extras)
