"""Tensors of data-dependent length: computed at an upper bound, cut to their length at outputs.

What selects by data (NonZero, Compress, NonMaxSuppression, TopK of a computed k) gives a tensor of the
greatest possible length and the count of places that hold results. Operators that treat places one
by one keep that form; any other use ends the segment, and what follows is specialised on the length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.ops.arithmetic import AddOp, MinOp, MulOp
from glow_dialects.ops.compare import CmpGeOp, CmpLtOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.logic import OrOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, NeedsHost, NeedsValue, RuleError, cast_to
from glow_frontends.graph.axes import axes_of, axis_of
from glow_frontends.graph.counts import filled, joined, there
from glow_frontends.graph.values import BoundedValue, Value, rank, shape
from glow_frontends.onnx.node import Node, Result
from glow_frontends.onnx.rules import activation, elementwise
from glow_frontends.onnx.rules.bounded_selection import suppressed
from glow_frontends.onnx.rules.indexing import node_label
from glow_frontends.onnx.rules.reduce import REDUCTIONS, first_of, keeps
from glow_frontends.onnx.rules.rule import Rule
from glow_frontends.onnx.rules.run_time_slices import only_place
from glow_frontends.onnx.values import AnyValue

#: Results of more elements are cut to their length first: most of a bound is often unused.
MAX_ELEMENTS = 1 << 20

#: Which axis of the results is the bounded one, from the bounded axes of some inputs; None: do not go on.
Follow = Callable[[Emitter, Node, Mapping[int, int]], int | None]


def through(g: Emitter, n: Node, rule: Rule) -> list[AnyValue | None]:
    """The outputs of a node of which inputs are bounded; NeedsHost where they must be cut first."""
    if n.proto.domain not in ("", "ai.onnx"):
        raise NeedsHost(n.op)
    bounded = {i: v for i, v in enumerate(n.inputs) if isinstance(v, BoundedValue)}
    inputs: list[AnyValue | None] = [v.value if isinstance(v, BoundedValue) else v for v in n.inputs]
    padded = Node(n.proto, n.opset, inputs, n.attributes, n.scope, padded=True)
    try:
        return _checked(n, _results(g, padded, bounded, rule))
    except NeedsValue:
        raise
    except (RuleError, VerifyException):  # perhaps right at the length itself
        raise NeedsHost(n.op) from None


def _results(
    g: Emitter, n: Node, bounded: Mapping[int, BoundedValue], rule: Rule
) -> Sequence[AnyValue | None]:
    """The outputs at the bound."""
    first = next(iter(bounded.values()))
    same = all(v.count is first.count for v in bounded.values())
    follow = FOLLOW.get(n.op)
    axis = follow(g, n, {i: v.axis for i, v in bounded.items()}) if follow is not None and same else None
    if axis is not None:
        results = [v for v in _listed(rule(g, n)) if isinstance(v, SSAValue)]
        count, bound = first.count, shape(first.value)[first.axis]
        if shape(results[0])[axis] < bound:
            count = _fewer(g, count, shape(results[0])[axis])
        return [g.bounded(v, axis, count) for v in results]
    across = ACROSS.get(n.op)
    if across is None:
        raise NeedsHost(n.op)
    return across(g, n, bounded, rule)


def _listed(result: Result) -> list[AnyValue | None]:
    return [result] if isinstance(result, SSAValue | np.ndarray | BoundedValue) else list(result)  # pyright: ignore


def _checked(n: Node, results: Sequence[AnyValue | None]) -> list[AnyValue | None]:
    """The results, unless their bounds are far too large."""
    for value in results:
        if isinstance(value, BoundedValue) and np.prod(shape(value.value)) > MAX_ELEMENTS:
            raise NeedsHost(n.op)
    return list(results)


def _fewer(g: Emitter, count: SSAValue, most: int) -> SSAValue:
    """min(count, most), one value for equal arguments."""
    (least,) = g.once((MinOp, count, most), lambda: [g(MinOp, count, np.array(most, np.int64))])
    assert isinstance(least, SSAValue)
    return least


def _elementwise(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    del g
    total = max(rank(n[i]) for i in range(len(n.inputs)) if n.get(i) is not None)
    places = {total - rank(n[i]) + axis for i, axis in axes.items()}
    (place, *more) = places
    if more:
        return None
    for index in range(len(n.inputs)):
        value = n.get(index)
        if value is None or index in axes:
            continue
        own = place - (total - rank(value))
        if own >= 0 and shape(value)[own] != 1:
            return None
    return place


def _gather(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    del g
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    if len(axes) > 1 or not shape(n[0])[axis]:
        return None
    if 1 in axes:
        return axis + axes[1]
    if axes[0] == axis:
        return None
    return axes[0] if axes[0] < axis else axes[0] - 1 + rank(n[1])


def _top_k(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    axis = axis_of(n.integer("axis", -1), rank(n[0]))
    return axes[0] if list(axes) == [0] and axes[0] != axis and not _computed(n, 1) else None


def _softmax(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    del g
    other = n.opset >= 13 and axes[0] != axis_of(n.integer("axis", -1), rank(n[0]))
    return axes[0] if other else None


def _computed(n: Node, index: int) -> bool:
    return isinstance(n.any_input(index), SSAValue)


def _gather_nd(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    del g
    if list(axes) != [1] or n.integer("batch_dims", 0) or axes[1] == rank(n[1]) - 1:
        return None
    return axes[1] if all(shape(n[0])[: shape(n[1])[-1]]) else None


def _transpose(g: Emitter, n: Node, axes: Mapping[int, int]) -> int:
    del g
    order = n.integers("perm") or tuple(reversed(range(rank(n[0]))))
    return order.index(axes[0])


def _axes(g: Emitter, n: Node) -> tuple[int, ...] | None:
    """Axes by attribute or by the second input."""
    if n.has("axes"):
        return n.integers("axes")
    return None if n.get(1) is None else g.ints(n[1], f"the axes of {n.op}")


def _squeeze(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    listed = _axes(g, n)
    gone = axes_of(listed, rank(n[0])) if listed is not None else ()
    if not gone or axes[0] in gone:
        return None
    return axes[0] - sum(a < axes[0] for a in gone)


def _unsqueeze(g: Emitter, n: Node, axes: Mapping[int, int]) -> int:
    listed = _axes(g, n) or ()
    added = axes_of(listed, rank(n[0]) + len(listed))
    return [a for a in range(rank(n[0]) + len(added)) if a not in added][axes[0]]


def _reduce(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    listed = _axes(g, n)
    gone = axes_of(listed, rank(n[0])) if listed else ()
    if not gone or 0 not in axes or axes[0] in gone:
        return None
    return axes[0] if keeps(n) else axes[0] - sum(a < axes[0] for a in gone)


def _arg(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    del g
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    if axes[0] == axis:
        return None
    return axes[0] - (not keeps(n) and axis < axes[0])


def _slice(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    """Any other axis, or the first so many along the bounded one."""
    if list(axes) != [0]:
        return None
    if n.opset < 10:
        starts, ends, where, steps = n.integers("starts"), n.integers("ends"), n.integers("axes"), None
    else:
        starts, ends = (g.ints(n[i], "a bound of Slice") for i in (1, 2))
        where, steps = (None if n.get(i) is None else g.ints(n[i], "a bound of Slice") for i in (3, 4))
    where = axes_of(where if where is not None else range(len(starts)), rank(n[0]))
    for index, axis in enumerate(where):
        whole = starts[index] == 0 and ends[index] >= 0 and (steps is None or steps[index] == 1)
        if axis == axes[0] and not whole:
            return None
    return axes[0]


def _joined(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    """Concat and Split along another axis."""
    del g
    axis = axis_of(n.integer("axis", 0 if n.op == "Split" else 1), rank(n[0]))
    every = {0} if n.op == "Split" else set(range(len(n.inputs)))
    same = set(axes) == every and len(set(axes.values())) == 1
    return axes[0] if same and axes[0] != axis else None


def _reshape(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    """The bounded axis stays as it is: where the target says 0 or -1, with as much before it."""
    if list(axes) != [0] or n.opset < 5:
        return None
    before = prod(shape(n[0])[: axes[0]])
    target = g.ints(n[1], "the target of Reshape")
    done = 1
    for index, size in enumerate(target):
        copied = size == 0 and not n.flag("allowzero")
        if (size == -1 or (copied and index == axes[0])) and done == before:
            rest = prod([d for d in target[index + 1 :] if d > 0])
            behind = prod(shape(n[0])[axes[0] + 1 :])
            return index if rest == behind and all(d > 0 for d in target[index + 1 :]) else None
        done *= shape(n[0])[index] if copied else size
        if size == -1:
            return None
    return None


# --- operators that look along the bounded axis --------------------------------------------------
Given = Mapping[int, BoundedValue]
Across = Callable[[Emitter, Node, Given, Rule], Sequence[AnyValue | None]]


def _shape(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value]:
    """Shape: known but for one number."""
    del rule
    dims: list[Value] = [np.array([d], np.int64) for d in shape(n[0])]
    dims[bounded[0].axis] = g.reshape(bounded[0].count, (1,))
    part = dims[slice(n.integer("start", 0), n.integer("end"))]
    return [g(ConcatOp, part, axis=0) if part else np.zeros(0, np.int64)]


def _size(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value]:
    """Size: a multiple of the length."""
    del rule
    dims = shape(n[0])
    others = prod([*dims[: bounded[0].axis], *dims[bounded[0].axis + 1 :]])
    return [g(MulOp, bounded[0].count, np.array(others, np.int64))]


def _taken(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value | BoundedValue]:
    """Gather along the bounded axis; indices may be bounded, too, and are checked where they are there."""
    del rule
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    if 0 not in bounded or bounded[0].axis != axis or not shape(n[0])[axis]:
        raise NeedsHost(n.op)
    indices = cast_to(g, n[1], np.dtype(np.int64))
    below = g(CmpLtOp, indices, g.like(0, indices))
    indices = g(SelectOp, below, g(AddOp, indices, bounded[0].count), indices)
    missing = g(OrOp, g(CmpLtOp, indices, g.like(0, indices)), g(CmpGeOp, indices, bounded[0].count))
    outside = np.array(0 if g.scope.guessing else shape(n[0])[axis], np.int64)
    if 1 in bounded and not g.scope.guessing:
        outside = g(SelectOp, there(g, bounded[1]), outside, np.array(0, np.int64))
    indices = g(SelectOp, missing, outside, indices)
    text = f"{node_label(g, n)}: an index is out of range for the elements that there are."
    gathered = g(GatherOp, n[0], indices, axis=axis, checked=text)
    return [g.bounded(gathered, axis + bounded[1].axis, bounded[1].count) if 1 in bounded else gathered]


def _best(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value | BoundedValue]:
    """TopK along the bounded axis, what is not there being worst."""
    del rule
    x = bounded.get(0)
    if x is None or 1 in bounded or n.opset < 10 or x.axis != axis_of(n.integer("axis", -1), rank(n[0])):
        raise NeedsHost(n.op)
    largest = n.flag("largest", True)
    options = {"largest": largest, "sorted": n.flag("sorted", True)}
    k = g(MinOp, g.reshape(n[1], ()), x.count)
    return first_of(g, filled(g, x, -np.inf if largest else np.inf), k, x.axis, **options)


def _joins(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value | BoundedValue]:
    """Concat along the bounded axis."""
    del rule
    axis = axis_of(n.integer("axis", 1), rank(n[0]))
    if n.op != "Concat" or any(v.axis != axis for v in bounded.values()):
        raise NeedsHost(n.op)
    return [joined(g, [bounded.get(i, n[i]) for i in range(len(n.inputs))], axis)]


def _one(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value]:
    """Squeeze of the bounded axis, which then has one place."""
    del rule
    axes = _axes(g, n)
    if list(bounded) != [0] or axes is None:
        raise NeedsHost(n.op)
    gone = axes_of(axes, rank(n[0]))
    if bounded[0].axis not in gone or any(shape(n[0])[a] != 1 for a in gone if a != bounded[0].axis):
        raise NeedsHost(n.op)
    place = only_place(g, bounded[0])
    return [g.reshape(place, [d for i, d in enumerate(shape(n[0])) if i not in gone])]


def _reduced(neutral: float) -> Across:
    """A reduction along the bounded axis: elements behind the length are neutral."""

    def across(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[AnyValue | None]:
        if list(bounded) != [0]:
            raise NeedsHost(n.op)
        inputs = [filled(g, bounded[0], neutral), *n.inputs[1:]]
        return _listed(rule(g, Node(n.proto, n.opset, inputs, n.attributes, n.scope, padded=True)))

    return across


def _along(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[AnyValue | None]:
    """Softmax along the bounded axis."""
    if n.opset < 13:
        raise NeedsHost(n.op)
    (reduced,) = _reduced(-np.inf)(g, n, bounded, rule)
    assert isinstance(reduced, SSAValue)
    return [g.bounded(reduced, bounded[0].axis, bounded[0].count)]


def _suppressed(g: Emitter, n: Node, bounded: Given, rule: Rule) -> list[Value | BoundedValue]:
    """NonMaxSuppression among as many boxes as there are."""
    del rule
    boxes, scores = bounded.get(0), bounded.get(1)
    if len(bounded) != 2 or boxes is None or scores is None or boxes.count is not scores.count:
        raise NeedsHost(n.op)
    if (boxes.axis, scores.axis) != (1, 2):
        raise NeedsHost(n.op)
    return [suppressed(g, n, boxes.count)]


ACROSS: dict[str, Across] = {
    "ArgMax": _reduced(-np.inf),
    "ArgMin": _reduced(np.inf),
    "Concat": _joins,
    "Gather": _taken,
    "LogSoftmax": _along,
    "NonMaxSuppression": _suppressed,
    "ReduceL1": _reduced(0),
    "ReduceL2": _reduced(0),
    "ReduceLogSumExp": _reduced(-np.inf),
    "ReduceMax": _reduced(-np.inf),
    "ReduceMin": _reduced(np.inf),
    "ReduceProd": _reduced(1),
    "ReduceSum": _reduced(0),
    "ReduceSumSquare": _reduced(0),
    "Shape": _shape,
    "Size": _size,
    "Softmax": _along,
    "Squeeze": _one,
    "TopK": _best,
}
FOLLOW: dict[str, Follow] = {
    **dict.fromkeys([*elementwise.RULES, *activation.RULES, "Cast", "Identity"], _elementwise),
    "Hardmax": _softmax,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Concat": _joined,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Reshape": _reshape,
    "LogSoftmax": _softmax,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _joined,
    "Squeeze": _squeeze,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
