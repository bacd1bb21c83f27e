"""Convolutions and pools of volumes in training functions: those of planes, whose gradients are fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.term import Term, concat
from glow_dialects.core.types import shape_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.slice import SliceOp


def planes_form(op: Operation, b: Builder) -> list[SSAValue] | None:
    """The result of a convolution or pool of three spatial axes by those of planes; None of others."""
    if not isinstance(op, ConvOp | ConvTransposeOp | MaxPoolOp | AvgPoolOp) or op.predicate is not None:
        return None
    if len(shape_of(op.input)) != 5 or 0 in (*shape_of(op.input), *shape_of(op.result)):
        return None
    return [_pool(op, b) if isinstance(op, MaxPoolOp | AvgPoolOp) else _convolution(op, b)]


def _pool(op: MaxPoolOp | AvgPoolOp, b: Builder) -> SSAValue:
    """Maxima and means of boxes: within planes, then across them."""
    x, last = Term(op.input, b), op.layout == "NHWC"
    batch, channels, (depth, *plane) = op.sizes(op.input)
    outputs = op.sizes(op.result)[2]
    pads, kind = op.pads, type(op)
    within: dict[str, Any] = {**op.window_properties(), "pads": (*pads[1:3], *pads[4:])}
    across: dict[str, Any] = {**op.window_properties(), "pads": (pads[0], 0, pads[3], 0)}
    for name in ("kernel", "strides", "dilations"):
        first, *rest = getattr(op, name)
        within[name], across[name] = tuple(rest), (first, 1)
    shape = (batch * depth, *plane, channels) if last else (batch, channels * depth, *plane)
    y = x.reshape(shape).apply(kind, **within)
    line = outputs[1] * outputs[2]
    shape = (batch, depth, line, channels) if last else (batch, channels, depth, line)
    y = y.reshape(shape).apply(kind, **across)
    return y.reshape(shape_of(op.result)).value


def _convolution(op: ConvOp | ConvTransposeOp, b: Builder) -> SSAValue:
    """One convolution of planes, [N D, C, H, W].

    The planes under the taps of a filter along the first axis are further channels of the image;
    of a transposed one they are further channels of the result, which are added where they belong.
    """
    last = op.layout == "NHWC"
    # Both the input and the filter with the first spatial axis second, the channels third.
    order = (0, 1, 4, 2, 3) if last else (0, 2, 1, 3, 4)
    x, w = Term(op.input, b).transpose(order), Term(op.filter, b).transpose(order)
    y = _transposed(op, x, w) if isinstance(op, ConvTransposeOp) else _plain(op, x, w)
    return y.transpose((0, 1, 3, 4, 2) if last else (0, 2, 1, 3, 4)).value


def _flat(op: ConvOp | ConvTransposeOp) -> dict[str, Any]:
    """The window within a plane."""
    pads = op.pads
    return {
        "strides": op.strides[1:],
        "pads": (*pads[1:3], *pads[4:]),
        "dilations": op.dilations[1:],
        "group": op.group,
    }


def _plain(op: ConvOp, x: Term, w: Term) -> Term:
    pads, stride, dilation = op.pads, op.strides[0], op.dilations[0]
    if pads[0] or pads[3]:
        x = x.apply(PadOp, pads=(0, pads[0], 0, 0, 0, 0, pads[3], 0, 0, 0))
    batch, _, channels, height, width = x.shape
    out, taps, inner, *kernel = w.shape
    group, outputs = channels // inner, op.sizes(op.result)[2]
    parts: list[Term] = []
    for tap in range(taps):
        start = tap * dilation
        taken = x.apply(
            SliceOp,
            starts=(0, start, 0, 0, 0),
            ends=(batch, start + (outputs[0] - 1) * stride + 1, channels, height, width),
            steps=(1, stride, 1, 1, 1),
        )
        parts.append(taken.reshape((batch * outputs[0], group, inner, height, width)))
    image = concat(parts, 2).reshape((batch * outputs[0], taps * channels, height, width))
    filters = w.reshape((out, taps * inner, *kernel))
    y = image.apply(ConvOp, filters, op.bias, **_flat(op))
    return y.reshape((batch, outputs[0], out, *outputs[1:]))


def _transposed(op: ConvTransposeOp, x: Term, w: Term) -> Term:
    batch, depth, channels, height, width = x.shape
    _, taps, inner, *kernel = w.shape
    group, stride = op.group, op.strides[0]
    _, out, (goal, *plane) = op.sizes(op.result)
    image = x.reshape((batch * depth, channels, height, width))
    filters = w.reshape((channels, taps * inner, *kernel))
    more: dict[str, Any] = {"output_pads": op.output_pads[1:], **_flat(op)}
    y = image.apply(ConvTransposeOp, filters, None, **more)
    y = y.reshape((batch, depth, group, taps, inner, *plane))
    total: Term | None = None
    for tap in range(taps):
        part = y.slice(3, tap, tap + 1).reshape((batch, depth, 1, out, *plane))
        if stride > 1:
            part = part.apply(PadOp, pads=(0,) * 8 + (stride - 1,) + (0,) * 3)
        part = part.reshape((batch, depth * stride, out, *plane))
        part = _placed(part, tap * op.dilations[0] - op.pads[0], goal)
        total = part if total is None else total + part
    assert total is not None
    return total if op.bias is None else total + total.of(op.bias).reshape((1, 1, out, 1, 1))


def _placed(x: Term, first: int, size: int) -> Term:
    """x from place `first` on along the second axis of `size` zeros, cut at its ends."""
    length, rest = x.shape[1], (0,) * (len(x.shape) - 2)
    start, end = max(0, -first), max(0, min(length, size - first))
    start = min(start, end)
    x = x.slice(1, start, end)
    before = min(size, max(0, first))
    pads: Sequence[int] = (0, before, *rest, 0, size - before - (end - start), *rest)
    return x.apply(PadOp, pads=pads) if any(pads) else x
