"""Rules of convolution, matrix products, normalisation and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.dropout import DropoutOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.group_norm import InstanceNormOp
from glow_dialects.ops.lrn import LrnOp
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp
from glow_dialects.ops.unary_math import SqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.axes import axis_of, flat_axis
from glow_frontends.graph.movement import broadcast
from glow_frontends.onnx.node import Node, Result
from glow_frontends.onnx.rules.rule import Rule, Versions, per_axis
from glow_frontends.onnx.rules.windows import window_of


def conv(g: Emitter, n: Node) -> Value:
    """Conv."""
    x, w = n[0], n[1]
    window = window_of(n, shape(x)[2:], shape(w)[2:])
    return g(
        ConvOp,
        x,
        w,
        n.get(2),
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=n.integer("group", 1),
    )


def conv_transpose(g: Emitter, n: Node, given_pads: Sequence[int] = ()) -> Value:
    """ConvTranspose: `output_shape` and auto_pad decide pads; `given_pads` stand for the attribute."""
    x, w = n[0], n[1]
    sizes = shape(x)[2:]
    count = len(sizes)
    kernel = per_axis(n, "kernel_shape", shape(w)[2:], count)
    strides = per_axis(n, "strides", (1,) * count)
    dilations = per_axis(n, "dilations", (1,) * count)
    more = per_axis(n, "output_padding", (0,) * count)
    pads = tuple(given_pads) or per_axis(n, "pads", (0,) * 2 * count)
    full = [
        (s - 1) * t + (k - 1) * d + 1 + o
        for s, t, k, d, o in zip(sizes, strides, kernel, dilations, more, strict=True)
    ]
    mode = n.text("auto_pad", "NOTSET")
    wanted = n.integers("output_shape")
    if wanted is not None:
        wanted = per_axis(n, "output_shape", (), len(wanted) if len(wanted) == count + 2 else count)[-count:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(s * t for s, t in zip(sizes, strides, strict=True))
    elif mode == "VALID":
        pads = (0,) * 2 * count
    if wanted is not None:
        total = [max(0, f - o) for f, o in zip(full, wanted, strict=True)]
        more = tuple(m + max(0, o - f) for m, f, o in zip(more, full, wanted, strict=True))
        small = [t // 2 for t in total]
        large = [t - s for t, s in zip(total, small, strict=True)]
        pads = (*small, *large) if mode == "SAME_UPPER" else (*large, *small)
    return g(
        ConvTransposeOp,
        x,
        w,
        n.get(2),
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=n.integer("group", 1),
        output_pads=more,
    )


def gemm(g: Emitter, n: Node) -> Value:
    """Gemm: alpha A B + beta C, with a bias of one row taken into the product."""
    a, b, c = n[0], n[1], n.get(2)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if n.flag("transA"):
        a = g.transpose(a, (1, 0))
    if n.flag("transB"):
        b = g.transpose(b, (1, 0))
    if rank(a) != 2 or rank(b) != 2:
        raise RuleError(f"operands of rank {rank(a)} and {rank(b)}, expected matrices")
    width = shape(b)[1]
    if c is not None and beta != 1.0:
        c = g(MulOp, c, g.like(beta, c))
    row = c is not None and prod(shape(c)) == width and shape(c)[-1:] == (width,)
    if alpha == 1.0 and row and c is not None:
        return g(FullyConnectedOp, a, b, g.reshape(c, (width,)))
    if alpha != 1.0 and isinstance(b, np.ndarray):
        b, alpha = g(MulOp, b, g.like(alpha, b)), 1.0
    y = g(FullyConnectedOp, a, b, None)
    if alpha != 1.0:
        y = g(MulOp, y, g.like(alpha, y))
    return y if c is None else g(AddOp, y, c)


def matmul(g: Emitter, n: Node) -> Value:
    """MatMul with NumPy's rules for ranks 1 and above 2."""
    return product(g, n[0], n[1])


def batch_norm(g: Emitter, n: Node) -> list[Value | None]:
    """BatchNormalization, with running statistics; in training mode with the batch's."""
    x = n[0]
    training = n.flag("training_mode") if n.opset >= 14 else n.opset < 7 and not n.flag("is_test")
    epsilon, momentum = n.number("epsilon", 1e-5), n.number("momentum", 0.9)
    if n.opset < 9 and not n.flag("spatial", True):
        return [_per_element_norm(g, n, epsilon)]
    parameters = [n[i] for i in range(1, 5)]
    if not training:
        return [_normalize(g, x, parameters, epsilon, momentum)]
    axes = (0, *range(2, rank(x)))
    mean = g(ReduceMeanOp, x, axes=axes, keepdims=True)
    centred = g(SubOp, x, mean)
    variance = g(ReduceMeanOp, g(MulOp, centred, centred), axes=axes, keepdims=True)
    channels = (shape(x)[1],)
    batch = [g.reshape(mean, channels), g.reshape(variance, channels)]
    y = _normalize(g, x, [*parameters[:2], *batch], epsilon, momentum)
    running: list[Value | None] = []
    for old, new in zip(parameters[2:], batch, strict=True):
        keep = g(MulOp, old, g.like(momentum, old))
        running.append(g(AddOp, keep, g(MulOp, new, g.like(1 - momentum, old))))
    return [y, *running]


def _normalize(g: Emitter, x: Value, parameters: list[Value], epsilon: float, momentum: float) -> Value:
    same = all(dtype_of_value(p) == dtype_of_value(x) for p in parameters)
    if not same:
        parameters = [cast_to(g, p, dtype_of_value(x)) for p in parameters]
    return g(BatchNormOp, x, *parameters, epsilon=epsilon, momentum=momentum)


def _per_element_norm(g: Emitter, n: Node, epsilon: float) -> Value:
    """The form before opset 9 whose statistics belong to each element of the sample."""
    x, scale, bias, mean, variance = (n[i] for i in range(5))
    deviation = g(SqrtOp, g(AddOp, variance, g.like(epsilon, variance)))
    return g(AddOp, g(MulOp, g(DivOp, g(SubOp, x, mean), deviation), scale), bias)


def lrn(g: Emitter, n: Node) -> Value:
    """LRN."""
    return g(
        LrnOp,
        n[0],
        size=n.integer("size"),
        alpha=n.number("alpha", 1e-4),
        beta=n.number("beta", 0.75),
        bias=n.number("bias", 1.0),
    )


def instance_norm(g: Emitter, n: Node) -> Value:
    """InstanceNormalization."""
    return g(InstanceNormOp, n[0], n[1], n[2], epsilon=n.number("epsilon", 1e-5))


def softmax(kind: type[GraphOp]) -> Rule:
    """Softmax and its kin since opset 13: along one axis."""

    def rule(g: Emitter, n: Node) -> Result:
        if dtype_of_value(n[0]) == np.dtype(np.float16):
            # The standard's body rounds after every step; one rounding at the end differs visibly.
            return n.scope.expand(n)
        return g(kind, n[0], axis=axis_of(n.integer("axis", -1), max(1, rank(n[0]))))

    return rule


def flat_softmax(kind: type[GraphOp]) -> Rule:
    """Before opset 13: over all axes from `axis` on, as one."""

    def rule(g: Emitter, n: Node) -> Value:
        x = n[0]
        axis = flat_axis(n.integer("axis", 1), rank(x))
        dims = shape(x)
        rows, columns = prod(dims[:axis]), prod(dims[axis:])
        if axis < len(dims) and dims[axis] == columns:
            return g(kind, x, axis=axis)
        return g.reshape(g(kind, g.reshape(x, (rows, columns)), axis=1), dims)

    return rule


def dropout(g: Emitter, n: Node) -> list[Value | None]:
    """Dropout: of inference the input and a mask that keeps everything."""
    x = n[0]
    kind = dtype_of_value(x) if n.opset < 10 else np.dtype(bool)
    if _drops(g, n):
        ratio = n.get(1) if n.opset >= 12 else np.array(n.number("ratio", 0.5))
        rate = 0.5 if ratio is None else float(g.scalar(ratio, "dropout's ratio"))
        if rate != 0.0:
            result, mask = g.many(DropoutOp, x, ratio=rate, seed=n.integer("seed", 0))
            return [result, mask if kind == bool else cast_to(g, mask, kind)]
    return [x, broadcast(g, np.ones((), kind), shape(x)) if n.wants(1) else None]


def _drops(g: Emitter, n: Node) -> bool:
    """Whether a Dropout stays in the graph: in models for training, and where it says so itself."""
    if g.training:
        return True
    if n.opset >= 12:
        training = n.get(2)
        return training is not None and bool(g.scalar(training, "dropout's training mode"))
    return n.opset < 7 and not n.flag("is_test")


RULES: dict[str, Versions] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": matmul,
    "BatchNormalization": batch_norm,
    "LRN": lrn,
    "InstanceNormalization": instance_norm,
    "Softmax": ((1, flat_softmax(SoftmaxOp)), (13, softmax(SoftmaxOp))),
    "LogSoftmax": ((1, flat_softmax(LogSoftmaxOp)), (13, softmax(LogSoftmaxOp))),
    "Dropout": dropout,
}
