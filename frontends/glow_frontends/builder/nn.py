"""Convolutions, pools, products, normalisations and recurrences of the builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.dropout import DropoutOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.group_norm import GroupNormOp, InstanceNormOp
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.lp_normalize import LpNormalizeOp
from glow_dialects.ops.lp_pool import LpPoolOp
from glow_dialects.ops.lrn import LrnOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_dialects.ops.rnn import RnnOp
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp
from glow_frontends.builder.core import Binary, Like, Operators, Value, axis_of

Ints = Sequence[int] | int | None


def _ints(values: Ints, count: int) -> tuple[int, ...] | None:
    """One number for each of `count` axes; a single one stands for all."""
    if values is None:
        return None
    return (values,) * count if isinstance(values, int) else tuple(values)


class Networks(Operators):
    """Layers. Windows follow ONNX: pads are all begins, then all ends; layout "NCHW" or "NHWC"."""

    matmul: Binary
    batch_matmul: Binary

    def conv(
        self,
        x: Like,
        filter: Like,
        bias: Like | None = None,
        *,
        strides: Ints = None,
        pads: Ints = None,
        dilations: Ints = None,
        group: int = 1,
        layout: str = "NCHW",
    ) -> Value:
        """Convolution over any number of spatial axes; filter [O, C / group, *kernel] for NCHW."""
        value, window = self._window(x, strides, pads, dilations)
        return self.one(ConvOp, value, filter, bias, group=group, layout=layout, **window)

    def conv_transpose(
        self,
        x: Like,
        filter: Like,
        bias: Like | None = None,
        *,
        strides: Ints = None,
        pads: Ints = None,
        dilations: Ints = None,
        output_pads: Ints = None,
        group: int = 1,
        layout: str = "NCHW",
    ) -> Value:
        """Transposed convolution; filter [C, O / group, *kernel] for NCHW."""
        value, window = self._window(x, strides, pads, dilations)
        window["output_pads"] = _ints(output_pads, len(value.shape) - 2)
        return self.one(ConvTransposeOp, value, filter, bias, group=group, layout=layout, **window)

    def _window(
        self, x: Like, strides: Ints, pads: Ints, dilations: Ints, kernel: Ints = None
    ) -> tuple[Value, dict[str, Any]]:
        """x, and the properties of a window over it that are given."""
        value = self.value(x)
        count = len(value.shape) - 2
        return value, {
            "kernel": _ints(kernel, count),
            "strides": _ints(strides, count),
            "pads": _ints(pads, 2 * count),
            "dilations": _ints(dilations, count),
        }

    def max_pool(
        self,
        x: Like,
        kernel: Ints,
        *,
        strides: Ints = None,
        pads: Ints = None,
        dilations: Ints = None,
        layout: str = "NCHW",
    ) -> Value:
        """The largest element of each window."""
        value, window = self._window(x, strides, pads, dilations, kernel)
        return self.one(MaxPoolOp, value, layout=layout, **window)

    def max_pool_with_argmax(
        self,
        x: Like,
        kernel: Ints,
        *,
        strides: Ints = None,
        pads: Ints = None,
        dilations: Ints = None,
        layout: str = "NCHW",
    ) -> tuple[Value, Value]:
        """The largest element of each window, and its position in the flat input (i64)."""
        value, window = self._window(x, strides, pads, dilations, kernel)
        result, argmax = self.insert(MaxPoolWithArgmaxOp, value, layout=layout, **window)
        return result, argmax

    def avg_pool(
        self,
        x: Like,
        kernel: Ints,
        *,
        strides: Ints = None,
        pads: Ints = None,
        dilations: Ints = None,
        count_include_pad: bool = False,
        layout: str = "NCHW",
    ) -> Value:
        """The mean of each window; `count_include_pad` counts padding as zeros."""
        value, window = self._window(x, strides, pads, dilations, kernel)
        return self.one(AvgPoolOp, value, layout=layout, count_include_pad=count_include_pad, **window)

    def lp_pool(self, x: Like, kernel: Ints, *, strides: Ints = None, pads: Ints = None, p: int = 2) -> Value:
        """The p-norm of each window."""
        value, window = self._window(x, strides, pads, None, kernel)
        return self.one(LpPoolOp, value, p=p, **window)

    def global_avg_pool(self, x: Like) -> Value:
        """The mean over all pixels (NCHW), axes kept."""
        value = self.value(x)
        return self.avg_pool(value, value.shape[2:])

    def fully_connected(self, x: Like, weights: Like, bias: Like | None = None) -> Value:
        """x [N, K] times weights [K, M], plus bias [M]."""
        return self.one(FullyConnectedOp, x, weights, bias)

    def softmax(self, x: Like, axis: int = -1) -> Value:
        """exp(x) over its sum along an axis."""
        value = self.value(x)
        return self.one(SoftmaxOp, value, axis=axis_of(value, axis))

    def log_softmax(self, x: Like, axis: int = -1) -> Value:
        """The logarithm of `softmax`."""
        value = self.value(x)
        return self.one(LogSoftmaxOp, value, axis=axis_of(value, axis))

    def batch_norm(
        self,
        x: Like,
        scale: Like,
        bias: Like,
        mean: Like,
        variance: Like,
        epsilon: float = 1e-5,
        layout: str = "NCHW",
    ) -> Value:
        """Normalisation by given statistics, one value a channel."""
        return self.one(BatchNormOp, x, scale, bias, mean, variance, epsilon=float(epsilon), layout=layout)

    def layer_norm(
        self,
        x: Like,
        scale: Like | None = None,
        bias: Like | None = None,
        axis: int = -1,
        epsilon: float = 1e-5,
    ) -> Value:
        """Zero mean and unit variance over the axes from `axis` on."""
        value = self.value(x)
        where = axis_of(value, axis)
        return self.one(LayerNormOp, value, scale, bias, axis=where, epsilon=float(epsilon))

    def rms_norm(self, x: Like, scale: Like | None = None, axis: int = -1, epsilon: float = 1e-5) -> Value:
        """Unit root mean square over the axes from `axis` on."""
        value = self.value(x)
        return self.one(RmsNormOp, value, scale, axis=axis_of(value, axis), epsilon=float(epsilon))

    def instance_norm(self, x: Like, scale: Like, bias: Like, epsilon: float = 1e-5) -> Value:
        """Normalisation of each channel of each example (NCHW)."""
        return self.one(InstanceNormOp, x, scale, bias, epsilon=float(epsilon))

    def group_norm(self, x: Like, scale: Like, bias: Like, groups: int, epsilon: float = 1e-5) -> Value:
        """Normalisation of groups of channels of each example (NCHW)."""
        return self.one(GroupNormOp, x, scale, bias, groups=groups, epsilon=float(epsilon))

    def lrn(self, x: Like, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
        """Local response normalisation across channels (NCHW)."""
        return self.one(LrnOp, x, size=size, alpha=float(alpha), beta=float(beta), bias=float(bias))

    def lp_normalize(self, x: Like, axis: int = -1, p: int = 2) -> Value:
        """x over its p-norm along an axis."""
        value = self.value(x)
        return self.one(LpNormalizeOp, value, axis=axis_of(value, axis), p=p)

    def dropout(self, x: Like, ratio: float = 0.5, seed: int = 0) -> Value:
        """The identity in inference; zeros at random in training."""
        return self.one(DropoutOp, x, ratio=float(ratio), seed=seed)

    def lstm(
        self, x: Like, weights: Like, recurrence: Like, *states: Like | None, **options: Any
    ) -> list[Value]:
        """ONNX LSTM: (all hidden states, last hidden state, last cell); `states` from the bias on."""
        return self.insert(LstmOp, x, weights, recurrence, *states, **options)

    def gru(
        self, x: Like, weights: Like, recurrence: Like, *states: Like | None, **options: Any
    ) -> list[Value]:
        """ONNX GRU: (all hidden states, last hidden state)."""
        return self.insert(GruOp, x, weights, recurrence, *states, **options)

    def rnn(
        self, x: Like, weights: Like, recurrence: Like, *states: Like | None, **options: Any
    ) -> list[Value]:
        """ONNX RNN: (all hidden states, last hidden state)."""
        return self.insert(RnnOp, x, weights, recurrence, *states, **options)
