"""Conversions of element type that change nothing, or that another one makes useless."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.element_types import is_standard
from glow_dialects.core.types import dtype_of
from glow_dialects.ops.cast import CastOp
from glow_passes.graph.driver import Pattern, Rewriter, producer


def identity_cast(op: CastOp, r: Rewriter) -> SSAValue | None:
    """cast(x : T) : T -> x."""
    return op.input if op.input.type == op.result.type else None


def _holds(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether `wide` represents every value of `narrow`."""
    if not is_standard(wide):
        return False
    if not is_standard(narrow):
        return narrow.name == "bfloat16" and wide.kind == "f" and wide.itemsize >= 4
    return bool(np.can_cast(narrow, wide, casting="safe"))


def cast_of_cast(op: CastOp, r: Rewriter) -> SSAValue | None:
    """cast(cast(x : f16) : f32) : T -> cast(x) : T where the first conversion loses nothing."""
    inner = producer(op.input, CastOp)
    if inner is None:
        return None
    source, middle, target = (dtype_of(v.type) for v in (inner.input, op.input, op.result))
    if not _holds(middle, source) or target == bool or source == bool:
        return None
    if source.kind in "iu" and target.kind in "iu" and middle.kind not in "iu":
        return None  # a float saturates where an integer wraps
    if inner.input.type == op.result.type:
        return inner.input
    return r(CastOp(inner.input, results=op.result.type, saturate=op.saturate))


PATTERNS = (Pattern((CastOp,), identity_cast), Pattern((CastOp,), cast_of_cast))
