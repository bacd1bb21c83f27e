"""Gathers of known, evenly spaced indices are slices."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.extent import Extent
from glow_dialects.core.types import shape_of
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.driver import Pattern, Rewriter


def gather_to_slice(op: GatherOp, r: Rewriter) -> SSAValue | None:
    """gather(x, 2) -> reshape(x[2:3]); gather(x, [1, 3, 5]) -> x[1:6:2]."""
    indices = r.array(op.indices) if op.predicate is None else None
    if indices is None or indices.size == 0 or indices.ndim > 1:
        return None
    shape, axis = shape_of(op.data), op.axis
    size, behind = shape[axis], indices < 0
    places, ahead = indices.astype(np.int64).reshape(-1), 0
    if not isinstance(size, Extent):
        places = np.where(behind, indices + size, indices).astype(np.int64).reshape(-1)
    elif bool(np.all(behind)):
        ahead = size
    elif bool(np.any(behind)):
        return None
    steps = np.diff(places)
    step = int(steps[0]) if steps.size else 1
    if step < 1 or bool(np.any(steps != step)) or places[0] > places[-1]:
        return None
    first, last = int(places[0]) + ahead, int(places[-1]) + ahead
    if not (first >= 0 and last < size):
        return None
    bounds: dict[str, Any] = {
        "starts": [first if i == axis else 0 for i in range(len(shape))],
        "ends": [last + 1 if i == axis else n for i, n in enumerate(shape)],
        "steps": [step if i == axis else 1 for i in range(len(shape))],
    }
    cut = r(SliceOp(op.data, **bounds))
    return cut if cut.type == op.result.type else r(ReshapeOp(cut, results=op.result.type))


PATTERNS = (Pattern((GatherOp,), gather_to_slice),)
