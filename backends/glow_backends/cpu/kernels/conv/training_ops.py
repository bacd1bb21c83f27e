"""Operators of `glow_cpu` for training: filters packed at run time, gradients on blocked activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, Block
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.emit.filters import FORMS, FilterPackSpec, pack_filter, plain_filter, sizes_of
from glow_backends.cpu.fused_body import EpilogueOp, run_epilogue
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_choice, float_prop, int_prop, ints_prop, str_prop
from glow_dialects.core.types import Array, Tensor, element_of, present, shape_of, tensor
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp
from glow_dialects.ops.conv_backward_weights import filter_gradient
from glow_dialects.ops.max_pool import MaxPoolBackwardOp
from glow_dialects.ops.windows import output_sizes


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


@graph_op
class BatchNormTrainOp(EpilogueOp):
    """body(glow.batch_norm_train(input), extras) on blocks; scale, bias and statistics are plain."""

    name = "glow_cpu.batch_norm_train"
    INPLACE = ("input", "extras")
    epsilon = float_prop(1e-5)
    input = operand_def(Tensor)
    scale = operand_def(Tensor)
    bias = operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)
    mean = result_def(Tensor)
    variance = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [self.input.type, self.scale.type, self.scale.type]

    def reference(
        self,
        result: Array,
        mean: Array,
        variance: Array,
        input: Array,
        scale: Array,
        bias: Array,
        extras: Sequence[Array],
    ) -> None:
        x = unblock_channels(input, len(scale))
        centre, spread = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
        unit = (x - _row(centre)) / np.sqrt(_row(spread) + np.float32(self.epsilon))
        others = [unblock_channels(e, len(scale)) for e in extras]
        y = run_epilogue(self.body, unit * _row(scale) + _row(bias), others)
        result[...] = block_channels(y, input.shape[-1])
        mean[...], variance[...] = centre, spread


@graph_op
class BatchNormBackwardOp(PureOp):
    """glow.batch_norm_backward on blocked activations; scale, statistics and their gradients are plain.

    With `gate`, the normalisation's result behind a relu, the gradient counts where that is positive.
    """

    name = "glow_cpu.batch_norm_backward"
    INPLACE = ("grad",)
    epsilon = float_prop(1e-5)
    input = operand_def(Tensor)
    scale = operand_def(Tensor)
    mean = operand_def(Tensor)
    variance = operand_def(Tensor)
    grad = operand_def(Tensor)
    gate = opt_operand_def(Tensor)
    input_grad = result_def(Tensor)
    scale_grad = result_def(Tensor)
    bias_grad = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [self.input.type, self.scale.type, self.scale.type]

    def reference(
        self,
        input_grad: Array,
        scale_grad: Array,
        bias_grad: Array,
        input: Array,
        scale: Array,
        mean: Array,
        variance: Array,
        grad: Array,
        gate: Array | None,
    ) -> None:
        dy = grad if gate is None else np.where(gate > 0, grad, 0)
        x, dy = unblock_channels(input, len(scale)), unblock_channels(dy, len(scale))
        inverse = 1 / np.sqrt(variance + np.float32(self.epsilon))
        unit = (x - _row(mean)) * _row(inverse)
        total, bias = (dy * unit).sum(axis=(0, 2, 3)), dy.sum(axis=(0, 2, 3))
        count = np.float32(x.size // len(scale))
        dx = (dy - _row(bias / count) - unit * _row(total / count)) * _row(scale * inverse)
        input_grad[...] = block_channels(dx, input.shape[-1])
        scale_grad[...], bias_grad[...] = total, bias


@graph_op
class PoolBackwardOp(PureOp):
    """The gradient of a pool of mode "max" (of `input`) or "avg" on blocked activations.

    The result type is that of what was pooled; window properties are ONNX's, for two axes.
    """

    name = "glow_cpu.pool_backward"
    mode = str_prop()
    kernel = ints_prop()
    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    count_include_pad = bool_prop(False)
    grad = operand_def(Tensor)
    input = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        check_choice(self.name, "mode", self.mode, ("max", "avg"))
        window = (self.kernel, self.strides, self.pads, self.dilations)
        wanted = output_sizes(shape_of(self.result)[2:4], *window)
        if shape_of(self.grad)[2:4] != tuple(wanted) or (self.mode == "max") != bool(present(self.input)):
            raise VerifyException(
                f"{self.name}: gradient {self.grad.type} of a pool of {self.result.type}"
                "; give that of its output, and the input for a maximum"
            )

    def reference(self, result: Array, grad: Array, input: Array | None) -> None:
        batch, blocks, *size, lanes = result.shape
        window = {n: getattr(self, n) for n in ("kernel", "strides", "pads", "dilations")}
        plain = [unblock_channels(v, blocks * lanes) for v in (input, grad) if v is not None]
        kind = tensor((batch, blocks * lanes, *size), result.dtype)
        block = Block(arg_types=[tensor(v.shape, v.dtype) for v in plain])
        if input is None:
            include = self.count_include_pad
            op = AvgPoolBackwardOp(*block.args, results=kind, count_include_pad=include, **window)
        else:
            op = MaxPoolBackwardOp(*block.args, results=kind, **window)
        result[...] = block_channels(op.evaluate(plain)[0], lanes)


def _row(vector: Array) -> Array:
    return vector.reshape(1, -1, 1, 1)
