"""Rules of operators on quantised tensors: the operator on real numbers between two conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.types import tensor
from glow_dialects.ops.activation import LeakyReluOp, SigmoidOp
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.compare import CmpNeOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_frontends.graph import Emitter, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import join
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules import nn, pool, quantization, recurrent
from glow_frontends.onnx.rules.contrib import fused
from glow_frontends.onnx.rules.rule import Rule, Versions

FLOAT = np.dtype(np.float32)
#: Version of QuantizeLinear and DequantizeLinear that these operators are defined by.
VERSION = 21


def real(g: Emitter, n: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    """The numbers that a stored tensor with one scale stands for."""
    return quantization.dequantize_linear(
        g, replace(n, inputs=[x, scale, zero], attributes={}, opset=VERSION)
    )


def stored(g: Emitter, n: Node, y: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    """Real numbers as a stored tensor; of the dtype of `like` where there is no zero point."""
    point = np.zeros((), dtype_of_value(like)) if zero is None else zero
    return quantization.quantize_linear(g, replace(n, inputs=[y, scale, point], attributes={}, opset=VERSION))


def quantized(rule: Callable[[Emitter, Node, list[Value]], Value], operands: int) -> Rule:
    """An operator on `operands` triples of tensor, scale and zero point, then the result's pair."""

    def of_bytes(g: Emitter, n: Node) -> Value:
        parts = [real(g, n, n[3 * i], n[3 * i + 1], n.get(3 * i + 2)) for i in range(operands)]
        last = 3 * operands
        return stored(g, n, rule(g, n, parts), n[last], n.get(last + 1), n[0])

    return of_bytes


def average_pool(g: Emitter, n: Node, parts: list[Value]) -> Value:
    """AveragePool, of either layout."""
    return _first(g, n, parts, pool.average_pool)


def global_average_pool(g: Emitter, n: Node, parts: list[Value]) -> Value:
    """GlobalAveragePool, of either layout."""
    return _first(g, n, parts, pool.global_average_pool)


def _first(g: Emitter, n: Node, parts: Sequence[Value], rule: Callable[[Emitter, Node], Any]) -> Value:
    """A rule for channels in front on a tensor that may have them last."""
    last = n.flag("channels_last")
    x = channels_first(g, parts[0]) if last else parts[0]
    y = rule(g, replace(n, inputs=[x], opset=VERSION))
    return channels_last(g, y) if last else y


def channels_first(g: Emitter, x: Value) -> Value:
    """NHWC as NCHW."""
    return g.transpose(x, (0, rank(x) - 1, *range(1, rank(x) - 1)))


def channels_last(g: Emitter, x: Value) -> Value:
    """NCHW as NHWC."""
    return g.transpose(x, (0, *range(2, rank(x)), 1))


def conv(g: Emitter, n: Node) -> Value:
    """QLinearConv, with `channels_last` on images whose channels are the last axis."""
    if not n.flag("channels_last"):
        return quantization.qlinear_conv(g, n)
    inputs = [channels_first(g, n[0]), *n.inputs[1:]]
    return channels_last(g, quantization.qlinear_conv(g, replace(n, inputs=inputs)))


def max_pool(g: Emitter, n: Node) -> Value:
    """NhwcMaxPool."""
    inner = replace(n, inputs=[channels_first(g, n[0])], opset=12)
    return channels_last(g, pool.max_pool(g, inner)[0])


def concat(g: Emitter, n: Node) -> Value:
    """QLinearConcat: the result's pair first, then triples."""
    count = len(n.inputs) // 3
    starts = range(2, 2 + 3 * count, 3)
    parts = [real(g, n, n[i], n[i + 1], n.get(i + 2)) for i in starts if i + 1 < len(n.inputs)]
    y = join(g, parts, axis_of(n.integer("axis"), rank(parts[0])))
    return stored(g, n, y, n[0], n.get(1), n[2])


def where(g: Emitter, n: Node) -> Value:
    """QLinearWhere."""
    yes, no = (real(g, n, n[i], n[i + 1], n.get(i + 2)) for i in (1, 4))
    chosen = n[0] if dtype_of_value(n[0]) == np.dtype(bool) else g(CmpNeOp, n[0], g.like(0, n[0]))
    return stored(g, n, g(SelectOp, chosen, yes, no), n[7], n.get(8), n[1])


def softmax(g: Emitter, n: Node, parts: list[Value]) -> Value:
    """Softmax by the rules of the version that the node names."""
    axis = n.integer("axis", -1)
    if n.integer("opset", 13) < 13:
        return nn.flat_softmax(SoftmaxOp)(g, replace(n, inputs=list(parts), opset=1))  # pyright: ignore
    return g(SoftmaxOp, parts[0], axis=axis_of(axis, rank(parts[0])))


def gemm(g: Emitter, n: Node) -> Value:
    """QGemm: stored where the result has a scale, else float; the bias is in units of the product."""
    a = g.transpose(n[0], (1, 0)) if n.flag("transA") else n[0]
    b = g.transpose(n[3], (1, 0)) if n.flag("transB") else n[3]
    scale = g(MulOp, n[4], np.array(n.number("alpha", 1.0), np.float32))
    to, zero, bias = n.get(7), n.get(8), n.get(6)
    plain = replace(n, inputs=[a, n[1], n.get(2), b, scale, n.get(5), to, zero])
    kinds = None if to is None else quantization.stored_kinds(plain, 1)
    if kinds is not None and not isinstance(bias, SSAValue):
        source, weights, kind = kinds
        y = product(g, quantization.as_real(g, a, source), quantization.as_real(g, b, weights))
        if bias is not None:
            y = g(AddOp, y, quantization.real_bias(g, bias.reshape(-1), source, weights))
        return quantization.as_stored(g, y, kind, dtype_of_value(a if zero is None else zero))
    y = quantization.real_product(g, (a, n[1], n.get(2)), (b, scale, n.get(5)), bias, None)
    return y if to is None else stored(g, n, y, to, zero, a)


def matmul_to_float(g: Emitter, n: Node) -> Value:
    """MatMulIntegerToFloat."""
    a, b, a_scale, b_scale = (n[i] for i in range(4))
    return quantization.real_product(g, (a, a_scale, n.get(4)), (b, b_scale, n.get(5)), None, n.get(6))


def dynamic_matmul(g: Emitter, n: Node) -> Value:
    """DynamicQuantizeMatMul: DynamicQuantizeLinear, MatMulInteger, and the product of the scales."""
    a, scale, zero = quantization.dynamically_quantized(g, n[0])
    return quantization.real_product(g, (a, scale, zero), (n[1], n[2], n.get(3)), None, n.get(4))


def matmul_integer16(g: Emitter, n: Node) -> Value:
    """MatMulInteger16: int32 products of int16 operands."""
    return product(g, *(cast_to(g, n[i], quantization.INT32) for i in (0, 1)))


def dynamic_lstm(g: Emitter, n: Node) -> list[Value | None]:
    """DynamicQuantizeLSTM: inputs are brought to 8 bits by their range, states by each sample's."""
    (weights, input_scales), (recurrence, scales) = (_whole(g, n, index) for index in (1, 2))
    inputs = [n[0], weights, recurrence, *(n.get(i) for i in range(3, 8)), scales, input_scales]
    lstm = recurrent.recurrent(LstmOp, ("sigmoid", "tanh", "tanh"), 10, "input_forget")
    return lstm(g, replace(n, inputs=inputs, opset=14))  # pyright: ignore[reportReturnType]


def _whole(g: Emitter, n: Node, index: int) -> tuple[Value, Value]:
    """Weights [D, G H, inputs] less their zero points, as floats, and the scales [D, G H] of their rows."""
    place = {1: 8, 2: 10}[index]
    directions, _, rows = shape(n[index])
    wide = quantization.centred(g, n[index], n.get(place + 1), _gates(n, place + 1))
    scale = g.reshape(n[place], _gates(n, place) or (1, 1, 1))
    kind = tensor((directions, 1, rows), FLOAT)
    spread = g.reshape(g(ExpandOp, scale, results=kind), (directions, rows))
    return g.transpose(cast_to(g, wide, FLOAT), (0, 2, 1)), spread


def _gates(n: Node, index: int) -> tuple[int, ...] | None:
    """The shape in which a parameter of directions, or of directions and gates, meets the weights."""
    parameter = n.get(index)
    if parameter is None:
        return None
    dims = shape(parameter)
    return (*dims[:1], 1, dims[1]) if len(dims) == 2 else (*(dims or (1,)), 1, 1)


def embed_layer_norm(g: Emitter, n: Node) -> list[Value | None]:
    """QEmbedLayerNormalization."""
    tables: list[Value | None] = []
    for index in range(2, 7):
        table = n.get(index)
        tables.append(None if table is None else real(g, n, table, n[index + 6], n.get(index + 11)))
    inputs = [n[0], n.get(1), *tables, n.get(7)]
    return fused.embed_layer_norm(g, replace(n, inputs=inputs))[:2]


RULES: dict[str, Versions] = {
    "DequantizeLinear": fused.standard(quantization.dequantize_linear, VERSION),
    "DynamicQuantizeLSTM": dynamic_lstm,
    "DynamicQuantizeMatMul": dynamic_matmul,
    "MatMulInteger16": matmul_integer16,
    "MatMulIntegerToFloat": matmul_to_float,
    "NhwcMaxPool": max_pool,
    "QEmbedLayerNormalization": embed_layer_norm,
    "QGemm": gemm,
    "QLinearAdd": quantized(lambda g, n, p: g(AddOp, *p), 2),
    "QLinearAveragePool": quantized(average_pool, 1),
    "QLinearConcat": concat,
    "QLinearConv": conv,
    "QLinearGlobalAveragePool": quantized(global_average_pool, 1),
    "QLinearLeakyRelu": quantized(lambda g, n, p: g(LeakyReluOp, *p, alpha=n.number("alpha", 0.01)), 1),
    "QLinearMul": quantized(lambda g, n, p: g(MulOp, *p), 2),
    "QLinearSigmoid": quantized(lambda g, n, p: g(SigmoidOp, *p), 1),
    "QLinearSoftmax": quantized(softmax, 1),
    "QLinearWhere": where,
    "QuantizeLinear": fused.standard(quantization.quantize_linear, VERSION),
}
