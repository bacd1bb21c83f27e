"""Convolutions of training: filters packed at run time, and their gradients, on channel blocks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.emit.filters import FORMS, FilterPackSpec, pack_filter, plain_filter, sizes_of
from glow_dialects.core.blocks import unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_choice, int_prop, ints_prop, str_prop
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.conv_backward_weights import filter_gradient


@graph_op
class PackFilterOp(PureOp):
    """A filter in the order that blocked convolutions read, transformed for Winograd `tile`s (0: not).

    (K / width, C / lanes, R, S, lanes, width), or (xi, K / width, C / lanes, lanes, width).
    """

    name = "glow_cpu.pack_filter"
    form = str_prop("OIHW")
    lanes = int_prop()
    width = int_prop()
    tile = int_prop(0)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [tensor(filter_pack_spec(self).shape, element_of(self.input))]

    def check(self) -> None:
        check_choice(self.name, "form", self.form, FORMS)
        if self.tile and filter_pack_spec(self).kernel != (3, 3):
            raise VerifyException(
                f"{self.name}: Winograd tiles of the filter {self.input.type}; give a filter of 3 x 3"
            )

    def reference(self, result: Array, input: Array) -> None:
        weights = plain_filter(input, self.form)
        result[...] = pack_filter(weights, self.lanes, self.width, self.tile)


def filter_pack_spec(op: PackFilterOp) -> FilterPackSpec:
    """The packing of a `glow_cpu.pack_filter` node or instruction."""
    sizes = sizes_of(shape_of(op.input), op.form)
    return FilterPackSpec(*sizes, op.form, op.lanes, op.width, op.tile)


@graph_op
class ConvWeightsOp(PureOp):
    """The filter's gradient of a convolution for a blocked `grad`; `input` is blocked, or NCHW.

    The result type is the plain filter's, OIHW, or OHWI with form "OHWI". `algorithm`: "direct", or
    "winograd4" for 3 x 3 kernels.
    """

    name = "glow_cpu.conv_weights"
    algorithm = str_prop("direct")
    form = str_prop("OIHW")
    lanes = int_prop()
    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    input = operand_def(Tensor)
    grad = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        check_choice(self.name, "form", self.form, FORMS[:2])
        check_choice(self.name, "algorithm", self.algorithm, ("direct", "winograd4"))
        if len(shape_of(self.grad)) != 5 or len(shape_of(self.input)) not in (4, 5):
            raise VerifyException(
                f"{self.name}: operands {self.input.type} and {self.grad.type}; give blocked ones"
            )

    def reference(self, result: Array, input: Array, grad: Array) -> None:
        out, channels, kernel = sizes_of(result.shape, self.form)
        x = unblock_channels(input, channels) if input.ndim == 5 else input
        window = (self.strides, self.pads, self.dilations)
        gradient = filter_gradient(x, unblock_channels(grad, out), kernel, *window)
        result[...] = gradient.transpose(["OIHW".index(axis) for axis in self.form])
