"""Nodes whose operands are known at compile time become constants."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp, Leaf
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of, typed
from glow_passes.graph.driver import Pattern, Rewriter, Values

#: Results of at most this many bytes are always folded.
ALWAYS = 1 << 20
#: Larger ones only if folding adds at most this factor to what the operands already take.
GROWTH = 2
#: Nothing larger than this is computed at compile time.
LIMIT = 1 << 28


def _worth_it(op: GraphOp, arrays: list[Array]) -> bool:
    """Whether the result may be kept: folding must never blow up memory (tile, expand, pad)."""
    after = sum(bytes_of(r.type) for r in op.results)
    if after <= ALWAYS:
        return True
    before = sum(a.nbytes for a in arrays if any(a.strides))
    return after <= LIMIT and after <= GROWTH * before


def fold(op: GraphOp, r: Rewriter) -> Values | None:
    """op(constants) -> constant, by the operator's own reference."""
    for value in op.operands:
        if not (isinstance(value.owner, Operation) and value.owner.has_trait(Leaf)):
            return None
    if op.has_trait(Leaf) or op.UNPACKS or not op.has_trait(Pure):
        return None
    if any(is_open(shape_of(result)) for result in op.results):
        return None
    values: list[SSAValue] = [v for name, _ in op.operand_groups() for v in op.operand_group(name)]
    if not values:
        return None
    arrays: list[Array] = []
    for value in values:
        array = r.array(value)
        if array is None:
            return None
        arrays.append(array)
    if not _worth_it(op, arrays):
        return None
    try:
        with np.errstate(all="ignore"):
            results = op.evaluate(arrays)
    except (UnsupportedError, NotImplementedError):
        return None
    hint = op.results[0].name_hint or "folded"
    return [r.weight(array, hint, typed(result)) for array, result in zip(results, op.results, strict=True)]


def without_elements(op: GraphOp, r: Rewriter) -> Values | None:
    """op -> constants, where no result has an element: nothing is computed, nor tables made of other axes.

    Numbers that only the run tells, such as indices, are still looked at.
    """
    if op.has_trait(Leaf) or not op.has_trait(Pure) or op.regions or not op.results:
        return None
    if any(is_open(shape_of(v)) or 0 not in shape_of(v) for v in op.results):
        return None
    if any(_is_read(v, r) for v in op.operands):
        return None
    empty = [np.zeros(shape_of(v), dtype_of(v.type)) for v in op.results]
    hint = op.results[0].name_hint or "empty"
    return [r.weight(array, hint, typed(v)) for array, v in zip(empty, op.results, strict=True)]


def _is_read(value: SSAValue, r: Rewriter) -> bool:
    """Whether a value has numbers that are no reals, and that only the run tells."""
    shape = shape_of(value)
    return (
        dtype_of(value.type).kind in "iu"
        and not (0 in shape and not is_open(shape))
        and r.array(value) is None
    )


PATTERNS = (Pattern((GraphOp,), without_elements), Pattern((GraphOp,), fold))
