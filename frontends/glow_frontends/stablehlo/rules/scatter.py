"""scatter and dynamic_update_slice: elements, rows and windows written by index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.extent import are_equal
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.indexing import REDUCTIONS as SCATTERS
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.reduce import ReduceMinOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule, Written
from glow_frontends.stablehlo.rules.gather import start_of
from glow_frontends.stablehlo.rules.places import clamped, joined, tuples, windows
from glow_frontends.stablehlo.rules.reduce import REDUCTIONS
from glow_frontends.stablehlo.rules.regions import kind_of, neutral
from glow_frontends.stablehlo.rules.shape import cut
from glow_frontends.stablehlo.values import expand, pointwise, same


def scatter(g: Emitter, n: Node) -> Value:
    """scatter: windows that are not inside are left out, as JAX asks for."""
    if len(n.operands) != 3:
        raise RuleError(f"a scatter into {len(n.operands) // 2} tensors together")
    kind = kind_of(n.block())
    if kind not in SCATTERS:
        raise RuleError(f"a scatter that joins by other than one of {', '.join(SCATTERS)}")
    d = n.dimensions("scatter_dimension_numbers")
    x, updates = n[0], n[2]
    vector = next(iter(d["index_vector_dim"]), 0)
    batching = d["input_batching_dims"]
    indices, lead = tuples(g, n[1], vector, d["scatter_indices_batching_dims"])
    mapped = [*batching, *d["scatter_dims_to_operand_dims"]]
    gone = {*d["inserted_window_dims"], *batching}
    # updates: scattered places first, then one axis for each of the operand
    window = list(d["update_window_dims"])
    scattered = [a for a in range(rank(updates)) if a not in window]
    updates = g.transpose(updates, (*scattered, *window))
    inner = iter(shape(updates)[len(lead) :])
    sizes = [1 if a in gone else next(inner) for a in range(rank(x))]
    updates = g.reshape(updates, (*lead, *sizes))
    # axes of which the windows take a part begin at 0
    partial = [a for a in range(rank(x)) if a not in mapped and not are_equal(sizes[a], shape(x)[a])]
    if partial:
        zeros = np.zeros((*lead, len(partial)), np.int64)
        indices = joined(g, [indices, zeros])
        mapped += partial
    others = [a for a in range(rank(x)) if a not in mapped]
    order = [*mapped, *others]
    spans = [sizes[a] for a in mapped]
    most = [shape(x)[a] - s for a, s in zip(mapped, spans, strict=True)]
    updates = g.transpose(updates, [*range(len(lead)), *(len(lead) + a for a in order)])
    if not mapped:
        return _whole(g, kind, x, updates, lead)
    moved = g.transpose(x, order)
    result = _written(g, kind, moved, indices, updates, most, spans)
    return g.transpose(result, [order.index(i) for i in range(rank(x))])


def _whole(g: Emitter, kind: str, x: Value, updates: Value, lead: Sequence[int]) -> Value:
    """A scatter of windows as large as the tensor."""
    if prod(lead) != 1:
        raise RuleError("several windows as large as the tensor")
    new = g.reshape(updates, shape(x))
    if kind == "none":
        return new
    return pointwise(g, REDUCTIONS[kind][1], x, new)


def _written(
    g: Emitter,
    kind: str,
    x: Value,
    indices: Value,
    updates: Value,
    most: Sequence[int],
    spans: Sequence[int],
) -> Value:
    """x with updates at tuples of its first axes."""
    inside = clamped(g, indices, most)
    ok = pointwise(g, CmpEqOp, inside, indices)
    if not (isinstance(ok, np.ndarray) and bool(ok.all())):
        return _guarded(g, kind, x, inside, updates, ok, spans)
    places = windows(g, inside, spans)
    return g(
        ScatterNdOp,
        x,
        places,
        g.reshape(updates, (*shape(places)[:-1], *shape(x)[len(spans) :])),
        reduction=kind,
    )


def _guarded(
    g: Emitter, kind: str, x: Value, inside: Value, updates: Value, ok: Value, spans: Sequence[int]
) -> Value:
    """A scatter of which updates may be outside: these change nothing, or are written behind the tensor."""
    lead, depth = shape(inside)[:-1], len(spans)
    last = len(lead)
    fits = g(ReduceMinOp, ok, axes=(last,), keepdims=False)
    if kind != "none":
        wide = expand(g, g.reshape(fits, (*lead, *(1,) * (rank(updates) - len(lead)))), shape(updates))
        idle = expand(g, neutral(kind, dtype_of_value(updates)), shape(updates))
        updates = pointwise(g, SelectOp, wide, updates, idle)
        places = windows(g, inside, spans)
        rows = g.reshape(updates, (*shape(places)[:-1], *shape(x)[depth:]))
        return g(ScatterNdOp, x, places, rows, reduction=kind)
    # one window more behind the first axis, where what is outside goes
    extra = expand(g, np.zeros((), dtype_of_value(x)), (spans[0], *shape(x)[1:]))
    padded = g(ConcatOp, [x, extra], axis=0)
    beyond = g.sizes(_first(shape(x)[0], depth), np.dtype(np.int64))
    beyond = expand(g, g.reshape(beyond, (*(1,) * last, depth)), shape(inside))
    wide = expand(g, g.reshape(fits, (*lead, 1)), shape(inside))
    places = windows(g, pointwise(g, SelectOp, wide, inside, beyond), spans)
    rows = g.reshape(updates, (*shape(places)[:-1], *shape(x)[depth:]))
    result = g(ScatterNdOp, padded, places, rows, reduction="none")
    return cut(g, result, (0,) * rank(x), shape(x))


def _first(number: int, count: int) -> np.ndarray:
    made = np.empty(count, object)
    made[:] = [number, *(0,) * (count - 1)]
    return made


def dynamic_update_slice(g: Emitter, n: Node) -> Value:
    """dynamic_update_slice: an insertion at known places, else rows or windows by index."""
    x, update, starts = n[0], n[1], n.operands[2:]
    limits = [size - part for size, part in zip(shape(x), shape(update), strict=True)]
    if same(shape(x), shape(update)):
        return update
    known = [
        0 if are_equal(k, 0) else min(max(int(s), 0), k) if isinstance(s, np.ndarray) else None
        for s, k in zip(starts, limits, strict=True)
    ]
    if None not in known:
        return g(InsertOp, x, update, starts=tuple(known))
    depth = 1 + max(i for i, k in enumerate(limits) if not are_equal(k, 0))
    columns = [
        g.reshape(np.zeros((), np.int64) if are_equal(k, 0) else start_of(g, s, k), (1,))
        for s, k in zip(starts[:depth], limits[:depth], strict=True)
    ]
    tuples_ = windows(g, joined(g, columns), shape(update)[:depth])
    result = g(ScatterNdOp, x, tuples_, update, reduction="none")
    if depth == 1 and are_equal(shape(update)[0], 1) and isinstance(result, SSAValue):
        n.program.written[result] = Written(x, starts[0], g.reshape(update, shape(update)[1:]))
    return result


RULES: dict[str, Rule] = {"dynamic_update_slice": dynamic_update_slice, "scatter": scatter}
