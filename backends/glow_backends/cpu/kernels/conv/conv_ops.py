"""`glow_cpu.conv` on channel blocks, `glow_cpu.plane_conv` on plain images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.emit.filters import FORMS, plain_filter, sizes_of
from glow_backends.cpu.fused_body import SumsOp, run_epilogue
from glow_backends.cpu.kernels.data.blocking_ops import blocked
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import (
    check_choice,
    int_prop,
    ints_prop,
    str_prop,
)
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.windows import convolve, output_sizes

ALGORITHMS = ("direct", *(f"winograd{tile}" for tile in range(2, 8)), "depthwise")


@graph_op
class ConvOp(SumsOp):
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
                f"{self.name}: {self.input.type} does not have {channels} channels; only the last block "
                "may have fewer"
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
class PlaneConvOp(SumsOp):
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
                f"{self.name}: {channels} channels, the filter takes {inner}; these numbers must be equal"
            )
        window = ((self.row_stride, 1), (0, 0, 0, 0), self.dilations)
        return [tensor((batch, out, *output_sizes(size, kernel, *window)), element_of(self.input))]

    def reference(
        self, result: Array, input: Array, filter: Array, bias: Array | None, extras: Sequence[Array]
    ) -> None:
        strides = (self.row_stride, 1)
        y = convolve(input, filter, strides, (0, 0, 0, 0), self.dilations, 1, bias)
        result[...] = run_epilogue(self.body, y, extras)
