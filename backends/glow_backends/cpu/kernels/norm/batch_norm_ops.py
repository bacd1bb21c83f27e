"""Training batch normalisation on channel blocks, with fused neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def

from glow_backends.cpu.fused_body import EpilogueOp, run_epilogue
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop
from glow_dialects.core.types import Array, Tensor


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


def _row(vector: Array) -> Array:
    return vector.reshape(1, -1, 1, 1)
