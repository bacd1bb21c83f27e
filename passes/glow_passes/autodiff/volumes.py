"""Convolutions and pools of volumes in training functions: those of planes, whose gradients are fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.types import present, shape_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.formula import Formula
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
    f, last = Formula(b, op.input), op.layout == "NHWC"
    batch, channels, (depth, *plane) = op.sizes(op.input)
    outputs = op.sizes(op.result)[2]
    pads, kind = op.pads, type(op)
    within: dict[str, Any] = {**op.window_properties(), "pads": (*pads[1:3], *pads[4:])}
    across: dict[str, Any] = {**op.window_properties(), "pads": (pads[0], 0, pads[3], 0)}
    for name in ("kernel", "strides", "dilations"):
        first, *rest = getattr(op, name)
        within[name], across[name] = tuple(rest), (first, 1)
    shape = (batch * depth, *plane, channels) if last else (batch, channels * depth, *plane)
    y = b(kind(f.reshape(op.input, shape), **within))
    line = outputs[1] * outputs[2]
    shape = (batch, depth, line, channels) if last else (batch, channels, depth, line)
    y = b(kind(f.reshape(y, shape), **across))
    return f.reshape(y, shape_of(op.result))


def _convolution(op: ConvOp | ConvTransposeOp, b: Builder) -> SSAValue:
    """One convolution of planes, [N D, C, H, W].

    The planes under the taps of a filter along the first axis are further channels of the image;
    of a transposed one they are further channels of the result, which are added where they belong.
    """
    f, last = Formula(b, op.input), op.layout == "NHWC"
    # Both the input and the filter with the first spatial axis second, the channels third.
    order = (0, 1, 4, 2, 3) if last else (0, 2, 1, 3, 4)
    x, w = f.transpose(op.input, order), f.transpose(op.filter, order)
    made = _transposed(op, f, x, w) if isinstance(op, ConvTransposeOp) else _plain(op, f, x, w)
    return f.transpose(made, (0, 1, 3, 4, 2) if last else (0, 2, 1, 3, 4))


def _flat(op: ConvOp | ConvTransposeOp) -> dict[str, Any]:
    """The window within a plane."""
    pads = op.pads
    return {
        "strides": op.strides[1:],
        "pads": (*pads[1:3], *pads[4:]),
        "dilations": op.dilations[1:],
        "group": op.group,
    }


def _plain(op: ConvOp, f: Formula, x: SSAValue, w: SSAValue) -> SSAValue:
    pads, stride, dilation = op.pads, op.strides[0], op.dilations[0]
    if pads[0] or pads[3]:
        x = f.b(PadOp(x, pads=(0, pads[0], 0, 0, 0, 0, pads[3], 0, 0, 0)))
    batch, _, channels, height, width = shape_of(x)
    out, taps, inner, *kernel = shape_of(w)
    group, outputs = channels // inner, op.sizes(op.result)[2]
    parts: list[SSAValue] = []
    for tap in range(taps):
        start = tap * dilation
        taken = SliceOp(
            x,
            starts=(0, start, 0, 0, 0),
            ends=(batch, start + (outputs[0] - 1) * stride + 1, channels, height, width),
            steps=(1, stride, 1, 1, 1),
        )
        parts.append(f.reshape(f.b(taken), (batch * outputs[0], group, inner, height, width)))
    image = f.reshape(f.concat(parts, 2), (batch * outputs[0], taps * channels, height, width))
    filters = f.reshape(w, (out, taps * inner, *kernel))
    y = f.b(ConvOp(image, filters, present(op.bias), **_flat(op)))
    return f.reshape(y, (batch, outputs[0], out, *outputs[1:]))


def _transposed(op: ConvTransposeOp, f: Formula, x: SSAValue, w: SSAValue) -> SSAValue:
    batch, depth, channels, height, width = shape_of(x)
    _, taps, inner, *kernel = shape_of(w)
    group, stride = op.group, op.strides[0]
    _, out, (goal, *plane) = op.sizes(op.result)
    image = f.reshape(x, (batch * depth, channels, height, width))
    filters = f.reshape(w, (channels, taps * inner, *kernel))
    more: dict[str, Any] = {"output_pads": op.output_pads[1:], **_flat(op)}
    y = f.b(ConvTransposeOp(image, filters, None, **more))
    y = f.reshape(y, (batch, depth, group, taps, inner, *plane))
    total: SSAValue | None = None
    for tap in range(taps):
        part = f.reshape(f.slice(y, 3, tap, tap + 1), (batch, depth, 1, out, *plane))
        if stride > 1:
            part = f.b(PadOp(part, pads=(0,) * 8 + (stride - 1,) + (0,) * 3))
        part = f.reshape(part, (batch, depth * stride, out, *plane))
        part = _placed(f, part, tap * op.dilations[0] - op.pads[0], goal)
        total = part if total is None else f.add(total, part)
    assert total is not None
    for bias in present(op.bias):
        total = f.add(total, f.reshape(bias, (1, 1, out, 1, 1)))
    return total


def _placed(f: Formula, x: SSAValue, first: int, size: int) -> SSAValue:
    """x from place `first` on along the second axis of `size` zeros; what is outside is left out."""
    length, rest = shape_of(x)[1], (0,) * (len(shape_of(x)) - 2)
    start, end = max(0, -first), max(0, min(length, size - first))
    start = min(start, end)
    x = f.slice(x, 1, start, end)
    before = min(size, max(0, first))
    pads: Sequence[int] = (0, before, *rest, 0, size - before - (end - start), *rest)
    return f.b(PadOp(x, pads=pads)) if any(pads) else x
