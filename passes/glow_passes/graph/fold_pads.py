"""Padding before a convolution or pool becomes the window's own padding."""

from __future__ import annotations

import math
from typing import Any

from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.linear import plain_properties


def _spatial_pads(pad: Any, op: Any) -> tuple[int, ...] | None:
    """Begins and ends on the spatial axes where `pad` adds nothing on the others."""
    rank = len(shape_of(pad.input))
    axes = op.spatial_axes(rank)
    pads = pad.pads
    if any(pads[i] or pads[i + rank] for i in range(rank) if i not in axes):
        return None
    return (*(pads[i] for i in axes), *(pads[i + rank] for i in axes))


def _padding(op: Any, value: float) -> tuple[Any, tuple[int, ...]] | None:
    pad = producer(op.operands[0], PadOp, single=True)
    if pad is None or pad.mode != "constant" or pad.value != value:
        return None
    spatial = _spatial_pads(pad, op)
    return None if spatial is None else (pad, spatial)


def _again(op: Any, pad: Any, extra: tuple[int, ...], r: Rewriter, **more: Any) -> SSAValue:
    joined = tuple(a + b for a, b in zip(op.pads, extra, strict=True))
    properties = {**plain_properties(op), "pads": joined, **more}
    return r(type(op)(pad.input, *op.operands[1:], **properties))


def pad_before_conv(op: ConvOp, r: Rewriter) -> SSAValue | None:
    """conv(pad(x, 0)) -> conv(x) with more pads."""
    padded = None if op.predicate is not None else _padding(op, 0.0)
    return None if padded is None else _again(op, *padded, r)


def pad_before_max_pool(op: MaxPoolOp, r: Rewriter) -> SSAValue | None:
    """max_pool(pad(x, -inf)) -> max_pool(x) with more pads, smaller than the window.

    Zeros do as well as -inf where no element is negative.
    """
    if op.predicate is not None:
        return None
    padded = _padding(op, -math.inf)
    if padded is None:
        padded = _padding(op, 0.0)
        if padded is not None and not _is_non_negative(padded[0].input):
            return None
    return _again(op, *padded, r) if padded is not None and _inside(op, padded[1]) else None


def _is_non_negative(value: SSAValue) -> bool:
    return isinstance(value.owner, GraphOp) and value.owner.RANGE[0] >= 0


def pad_before_avg_pool(op: AvgPoolOp, r: Rewriter) -> SSAValue | None:
    """avg_pool(pad(x, 0)) -> avg_pool(x) that counts its pads, smaller than the window."""
    padded = None if op.predicate is not None else _padding(op, 0.0)
    if padded is None or (any(op.pads) and not op.count_include_pad):
        return None
    if not _inside(op, padded[1]):
        return None
    return _again(op, *padded, r, count_include_pad=True)


def pad_below_transpose(op: TransposeOp, r: Rewriter) -> SSAValue | None:
    """transpose(pad(x)) -> pad(transpose(x)): next to the window, with less to transpose."""
    pad = producer(op.input, PadOp, single=True)
    if pad is None or op.predicate is not None or pad.predicate is not None:
        return None
    permutation = op.permutation
    pads = [side[i] for side in (pad.begins(), pad.ends()) for i in permutation]
    moved = r(TransposeOp(pad.input, permutation=permutation))
    return r(PadOp(moved, pads=pads, mode=pad.mode, value=pad.value))


def _inside(op: Any, extra: tuple[int, ...]) -> bool:
    """Whether every window still meets the input, which one with holes may miss."""
    kernel = op.kernel
    if any(d != 1 for d in op.dilations):
        return False
    pads = [a + b for a, b in zip(op.pads, extra, strict=True)]
    return all(p < k for p, k in zip(pads, (*kernel, *kernel), strict=True))


PATTERNS = (
    Pattern((ConvOp,), pad_before_conv),
    Pattern((MaxPoolOp,), pad_before_max_pool),
    Pattern((AvgPoolOp,), pad_before_avg_pool),
    Pattern((TransposeOp,), pad_below_transpose),
)
