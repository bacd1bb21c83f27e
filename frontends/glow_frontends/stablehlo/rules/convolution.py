"""convolution of any dimension numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.flip import FlipOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.rules.shape import padded
from glow_frontends.stablehlo.values import cast

_NUMBERS = re.compile(r"\[([^\]]*)\]")


@dataclass
class Axes:
    """Where the two axes that are no pixels stand, and those of pixels in order."""

    first: int
    second: int
    spatial: tuple[int, ...]

    @staticmethod
    def read(text: str, first: str, second: str) -> Axes:
        """Of `b, 0, 1, f`."""
        words = [w.strip() for w in text.split(",")]
        pixels = [w for w in words if w.isdigit()]
        if {first, second} - set(words) or sorted(map(int, pixels)) != list(range(len(pixels))):
            raise RuleError(f"dimension numbers [{text}], expected {first}, {second} and 0, 1, ...")
        return Axes(
            words.index(first), words.index(second), tuple(words.index(w) for w in sorted(pixels, key=int))
        )

    def order(self, last: bool) -> tuple[int, ...]:
        """The axes as they stand in a layout."""
        return (self.first, *self.spatial, self.second) if last else (self.first, self.second, *self.spatial)


@dataclass
class Convolution:
    """Operands with their axes in order of a layout (`last`: channels behind pixels), and the window."""

    x: Value
    w: Value
    last: bool
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    spread: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int

    @property
    def spatial(self) -> range:
        """The axes of pixels."""
        return range(1, rank(self.x) - 1) if self.last else range(2, rank(self.x))

    @property
    def channels(self) -> int:
        """The axis of channels."""
        return rank(self.x) - 1 if self.last else 1


def convolution(g: Emitter, n: Node) -> Value:
    """convolution: channels stay where they are, first or last; other orders are transposed."""
    numbers = _NUMBERS.findall(n.raw("dimension_numbers"))
    if len(numbers) != 3:
        raise RuleError(f"dimension numbers {n.raw('dimension_numbers')}")
    data, kernel, out = (Axes.read(t, *p) for t, p in zip(numbers, ("bf", "oi", "bf"), strict=True))
    last = data.second == rank(n[0]) - 1
    count = rank(n[0]) - 2
    if not count:
        raise RuleError("a convolution without pixels")
    ones = (1,) * count
    flat = n.ints("padding", (0,) * 2 * count)
    x, w = (cast(g, v, n.element()) for v in n.operands[:2])
    flips = n.flags("window_reversal", count)
    if any(flips):
        w = g(FlipOp, w, axes=tuple(a for a, f in zip(kernel.spatial, flips, strict=True) if f))
    c = Convolution(
        g.transpose(x, data.order(last)),
        g.transpose(w, kernel.order(last)),
        last,
        n.ints("window_strides", ones),
        tuple(zip(flat[::2], flat[1::2], strict=True)),
        n.ints("lhs_dilation", ones),
        n.ints("rhs_dilation", ones),
        n.integer("feature_group_count", 1),
    )
    batches = n.integer("batch_group_count", 1)
    if batches > 1:
        _batches_as_channels(g, c, batches)
    y = _result(g, c)
    order = out.order(last)
    return g.transpose(y, [order.index(i) for i in range(len(order))])


def _batches_as_channels(g: Emitter, c: Convolution, groups: int) -> None:
    """Groups of samples, each for some of the filters, become groups of channels."""
    if c.group != 1:
        raise RuleError("batch_group_count together with feature_group_count")
    dims = shape(c.x)
    rows = dims[0] // groups
    split = g.reshape(c.x, (groups, rows, *dims[1:]))
    target = 1 + c.channels  # the groups go in front of the channels
    order = [*range(1, target), 0, *range(target, len(dims) + 1)]
    merged = list(dims)
    merged[0], merged[c.channels] = rows, groups * dims[c.channels]
    c.x, c.group = g.reshape(g.transpose(split, order), merged), groups


def _result(g: Emitter, c: Convolution) -> Value:
    if all(s == 1 for s in c.spread):
        return _convolved(g, c)
    if all(s == 1 for s in c.strides):
        made = _transposed(g, c)
        if made is not None:
            return made
    inside = [0] * rank(c.x)
    for axis, step in zip(c.spatial, c.spread, strict=True):
        inside[axis] = step - 1
    none = (0,) * rank(c.x)
    c.x = padded(g, c.x, np.zeros((), dtype_of_value(c.x)), none, none, inside)
    return _convolved(g, c)


def _convolved(g: Emitter, c: Convolution) -> Value:
    """A convolution; padding of less than none is cut off before."""
    if min(min(p) for p in c.pads) < 0:
        low, high = [0] * rank(c.x), [0] * rank(c.x)
        for axis, (begin, end) in zip(c.spatial, c.pads, strict=True):
            low[axis], high[axis] = min(begin, 0), min(end, 0)
        c.x = padded(g, c.x, np.zeros((), dtype_of_value(c.x)), low, high, (0,) * rank(c.x))
    return g(
        ConvOp,
        c.x,
        c.w,
        None,
        strides=c.strides,
        pads=tuple(max(p[i], 0) for i in range(2) for p in c.pads),
        dilations=c.dilations,
        group=c.group,
        layout="NHWC" if c.last else "NCHW",
    )


def _transposed(g: Emitter, c: Convolution) -> Value | None:
    """A convolution of spread pixels as the transposed one that it is; None where padding leaves its form."""
    kernel = [shape(c.w)[a] for a in c.spatial]
    spans = [d * (k - 1) for k, d in zip(kernel, c.dilations, strict=True)]
    before = [s - p[0] for s, p in zip(spans, c.pads, strict=True)]
    after = [s - p[1] for s, p in zip(spans, c.pads, strict=True)]
    more = [max(-a, 0) for a in after]
    if min(before) < 0:
        return None
    outputs, inner = shape(c.w)[0], shape(c.w)[c.channels]
    w = g(FlipOp, c.w, axes=tuple(c.spatial))
    return g(
        ConvTransposeOp,
        c.x,
        _exchanged(g, w, c, outputs, inner),
        None,
        strides=c.spread,
        pads=(*before, *(max(a, 0) for a in after)),
        dilations=c.dilations,
        output_pads=tuple(more),
        group=c.group,
        layout="NHWC" if c.last else "NCHW",
    )


def _exchanged(g: Emitter, w: Value, c: Convolution, outputs: int, inner: int) -> Value:
    """Filters [O, C / group] as [C, O / group], with the pixels where they are."""
    axes: list[int] = list(range(rank(w)))
    if c.group == 1:
        axes[0], axes[c.channels] = c.channels, 0
        return g.transpose(w, axes)
    each = outputs // c.group
    dims = shape(w)
    split = g.reshape(w, (c.group, each, *dims[1:]))  # axis 0 is groups, 1 outputs, channels one further
    place = c.channels + 1
    order: Sequence[int] = [0, place, *(1 if i == place else i for i in range(2, rank(w) + 1))]
    merged = list(dims)
    merged[0], merged[c.channels] = c.group * inner, each
    return g.reshape(g.transpose(split, order), merged)


RULES: dict[str, Rule] = {"convolution": convolution}
