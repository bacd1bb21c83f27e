"""Convolutions, pools, products, normalisations and recurrences of the builder."""

from __future__ import annotations

from glow_dialects.ops.dropout import DropoutOp
from glow_frontends.builder.core import Binary, Layer, Layers, Like, Operators, Value


class Networks(Operators):
    """Layers. Windows follow ONNX: pads are all begins, then all ends; layout "NCHW" or "NHWC".

    A number for strides, pads, dilations or the kernel stands for all axes of pixels. Filters are
    [O, C / group, *kernel] for NCHW, of a transposed convolution [C, O / group, *kernel]. Recurrent layers
    take ONNX's operands, and give all hidden states, the last one and, of an LSTM, the last cell.
    """

    matmul: Binary
    batch_matmul: Binary
    conv: Layer
    conv_transpose: Layer
    max_pool: Layer
    max_pool_with_argmax: Layers
    avg_pool: Layer
    lp_pool: Layer
    fully_connected: Layer
    softmax: Layer
    log_softmax: Layer
    batch_norm: Layer
    layer_norm: Layer
    rms_norm: Layer
    instance_norm: Layer
    group_norm: Layer
    lrn: Layer
    lp_normalize: Layer
    lstm: Layers
    gru: Layers
    rnn: Layers

    def global_avg_pool(self, x: Like) -> Value:
        """The mean over all pixels (NCHW), axes kept."""
        value = self.value(x)
        return self.avg_pool(value, value.shape[2:])

    def dropout(self, x: Like, ratio: float = 0.5, seed: int = 0) -> Value:
        """The identity in inference; zeros at random in training."""
        return self.one(DropoutOp, x, ratio=float(ratio), seed=seed)
