"""Convolutions, pools, matrix products and normalisations in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.group_norm import InstanceNormOp
from glow_dialects.ops.layer_norm import LayerNormOp
from glow_dialects.ops.lp_pool import LpPoolOp
from glow_dialects.ops.lrn import LrnOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp
from glow_dialects.ops.windows import WindowOp
from glow_frontends.onnx.export.rule import Exporter, Rule


def channels_second(op: WindowOp | BatchNormOp, name: str, rank: int, e: Exporter) -> str:
    """A tensor with its channels second, as ONNX wants them."""
    if op.layout != "NHWC":
        return name
    return e.node("Transpose", [name], perm=[0, rank - 1, *range(1, rank - 1)])


def back(op: WindowOp | BatchNormOp, name: str, rank: int, e: Exporter) -> str:
    """A result in the operator's own layout."""
    if op.layout != "NHWC":
        return name
    return e.node("Transpose", [name], perm=[0, *range(2, rank), 1])


def window(op: WindowOp, *names: str) -> dict[str, Any]:
    """Strides, pads and dilations (where there are any) as attributes."""
    attributes = {n: list(getattr(op, n)) for n in ("strides", "pads", "dilations", *names)}
    if set(attributes["dilations"]) == {1}:
        del attributes["dilations"]  # onnxruntime has quantised pools that do not take it
    return attributes


def _bias(op: ConvOp | ConvTransposeOp | FullyConnectedOp, e: Exporter) -> list[str]:
    return [e.name(op.bias)] if op.bias is not None else []


def _conv(op: ConvOp, e: Exporter) -> str:
    rank = len(shape_of(op.input))
    inputs = [channels_second(op, e.name(v), rank, e) for v in (op.input, op.filter)]
    conv = e.node("Conv", [*inputs, *_bias(op, e)], group=op.group, **window(op))
    return back(op, conv, rank, e)


def _conv_transpose(op: ConvTransposeOp, e: Exporter) -> str:
    rank = len(shape_of(op.input))
    conv = e.node(
        "ConvTranspose",
        [*(channels_second(op, e.name(v), rank, e) for v in (op.input, op.filter)), *_bias(op, e)],
        group=op.group,
        output_padding=list(op.output_pads),
        **window(op),
    )
    return back(op, conv, rank, e)


_GLOBAL = {"AveragePool": "GlobalAveragePool", "MaxPool": "GlobalMaxPool", "LpPool": "GlobalLpPool"}


def _covers(op: MaxPoolOp | AvgPoolOp | LpPoolOp) -> bool:
    """Whether the window of a pool is the whole image, whatever its size."""
    shape = shape_of(op.input)
    spatial = shape[1:-1] if op.layout == "NHWC" else shape[2:]
    same = all(are_equal(k, d) for k, d in zip(op.kernel, spatial, strict=True))
    return same and not any(op.pads) and set(op.dilations) <= {1}


def _pool(kind: str, *flags: str) -> Rule:
    def rule(op: MaxPoolOp | AvgPoolOp | LpPoolOp, e: Exporter) -> str:
        rank = len(shape_of(op.input))
        source = channels_second(op, e.name(op.input), rank, e)
        order = op.p if isinstance(op, LpPoolOp) else None
        if is_open(op.kernel) and _covers(op) and kind in _GLOBAL:
            return back(
                op, e.node(_GLOBAL[kind], [source], p=op.p if isinstance(op, LpPoolOp) else None), rank, e
            )
        pool = e.node(
            kind,
            [source],
            kernel_shape=list(op.kernel),
            p=order,
            **{f: int(bool(getattr(op, f))) for f in flags},
            **window(op),
        )
        return back(op, pool, rank, e)

    return rule


def _max_pool_with_argmax(op: MaxPoolWithArgmaxOp, e: Exporter) -> Sequence[str]:
    rank = len(shape_of(op.input))
    pool = e.node(
        "MaxPool",
        [channels_second(op, e.name(op.input), rank, e)],
        2,
        kernel_shape=list(op.kernel),
        **window(op),
    )
    if op.layout != "NHWC":
        return pool
    # Positions count in the whole tensor: the pixel is the same, what surrounds it is not.
    batch, *spatial, channels = shape_of(op.input)
    pixels = prod(spatial)
    pixel = e.node("Mod", [back(op, pool[1], rank, e), e.constant(np.array(pixels, np.int64))])
    scaled = e.node("Mul", [pixel, e.constant(np.array(channels, np.int64))])
    starts = np.arange(batch, dtype=np.int64).reshape(-1, *[1] * (rank - 1)) * (pixels * channels)
    base = e.constant(starts + np.arange(channels, dtype=np.int64), "base")
    return [back(op, pool[0], rank, e), e.node("Add", [scaled, base])]


def _fully_connected(op: FullyConnectedOp, e: Exporter) -> str:
    inputs = [e.name(op.input), e.name(op.weights), *_bias(op, e)]
    return e.node("Gemm", inputs)


def _matmul(op: MatmulOp | BatchMatmulOp, e: Exporter) -> str:
    return e.node("MatMul", [e.name(op.lhs), e.name(op.rhs)])


def _softmax(op: SoftmaxOp, e: Exporter) -> str:
    x = e.name(op.input)
    y = e.node("Softmax", [x], axis=op.axis)
    if not op.masked:
        return y
    top = e.node("ReduceMax", [x, e.ints(op.axis)], keepdims=1)
    empty = e.node("Equal", [top, e.scalar(-np.inf, op.input)])
    return e.node("Where", [empty, e.scalar(0.0, op.input), y])


def _log_softmax(op: LogSoftmaxOp, e: Exporter) -> str:
    return e.node("LogSoftmax", [e.name(op.input)], axis=op.axis)


def _batch_norm(op: BatchNormOp, e: Exporter) -> str:
    rank = len(shape_of(op.input))
    operands: list[SSAValue] = list(op.operands)[1:5]
    inputs = [channels_second(op, e.name(op.input), rank, e), *(e.name(v) for v in operands)]
    norm = e.node("BatchNormalization", inputs, epsilon=op.epsilon, momentum=op.momentum)
    return back(op, norm, rank, e)


def _layer_norm(op: LayerNormOp, e: Exporter) -> str:
    axis = op.axis
    shape = shape_of(op.input)[axis:]
    scale = e.name(op.scale) if op.scale is not None else e.constant(np.ones(shape, np.float32), "ones")
    bias = [e.name(op.bias)] if op.bias is not None else []
    inputs = [e.name(op.input), scale, *bias]
    return e.node("LayerNormalization", inputs, axis=axis, epsilon=op.epsilon)


def _instance_norm(op: InstanceNormOp, e: Exporter) -> str:
    inputs = [e.name(v) for v in list(op.operands)[:3]]
    return e.node("InstanceNormalization", inputs, epsilon=op.epsilon)


def _lrn(op: LrnOp, e: Exporter) -> str:
    names = ("alpha", "beta", "bias", "size")
    return e.node("LRN", [e.name(op.input)], **{n: getattr(op, n) for n in names})


RULES: dict[type[GraphOp], Rule] = {
    ConvOp: _conv,
    ConvTransposeOp: _conv_transpose,
    MaxPoolOp: _pool("MaxPool"),
    MaxPoolWithArgmaxOp: _max_pool_with_argmax,
    AvgPoolOp: _pool("AveragePool", "count_include_pad"),
    LpPoolOp: _pool("LpPool"),
    FullyConnectedOp: _fully_connected,
    MatmulOp: _matmul,
    BatchMatmulOp: _matmul,
    SoftmaxOp: _softmax,
    LogSoftmaxOp: _log_softmax,
    BatchNormOp: _batch_norm,
    LayerNormOp: _layer_norm,
    InstanceNormOp: _instance_norm,
    LrnOp: _lrn,
}
