"""`glow_cpu.pool` and its gradient: pools of channel blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, Block
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.kernels.data.blocking_ops import blocked
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import (
    bool_prop,
    check_choice,
    ints_prop,
    str_prop,
)
from glow_dialects.core.types import Array, Tensor, element_of, present, shape_of, tensor
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp
from glow_dialects.ops.windows import output_sizes


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
                "; give the gradient of its output and, for a maximum, the input"
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
