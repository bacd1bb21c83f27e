"""Tensors whose length only the run tells, under an upper bound: compiled at the bound, cut where they leave.

What selects by data (NonZero, Compress, NonMaxSuppression, TopK of a computed k) gives a tensor of the
greatest possible length and the count of places that hold results. Operators that treat places one
by one keep that form; any other use ends the segment, and what follows is specialised on the length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.ops.arithmetic import MinOp
from glow_dialects.ops.concat import ConcatOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import NeedsHost
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules import activation, elementwise
from glow_frontends.onnx.rules.reduce import REDUCTIONS, keeps
from glow_frontends.onnx.rules.rule import Rule, axes_of, axis_of
from glow_frontends.onnx.values import AnyValue, BoundedValue, Value, rank, shape

#: Results of more elements are cut to their length first: most of a bound is often unused.
MAX_ELEMENTS = 1 << 20

#: Which axis of the results is the bounded one, from the bounded axes of some inputs; None: do not go on.
Follow = Callable[[Emitter, Node, Mapping[int, int]], int | None]


def through(g: Emitter, n: Node, rule: Rule) -> list[AnyValue | None]:
    """The outputs of a node of which inputs are bounded; NeedsHost where they must be cut first."""
    given = {i: v for i, v in enumerate(n.inputs) if isinstance(v, BoundedValue)}
    inputs: list[AnyValue | None] = [v.value if isinstance(v, BoundedValue) else v for v in n.inputs]
    padded = Node(n.proto, n.opset, inputs, n.attributes, n.scope)
    first = next(iter(given.values()))
    standard = not n.proto.domain or n.proto.domain == "ai.onnx"
    if n.op == "Shape" and standard:
        return [_shape(g, padded, first)]
    follow = FOLLOW.get(n.op) if standard else None
    if follow is None or any(v.count is not first.count for v in given.values()):
        raise NeedsHost(n.op)
    axis = follow(g, padded, {i: v.axis for i, v in given.items()})
    if axis is None:
        raise NeedsHost(n.op)
    made = rule(g, padded)
    results: Sequence[AnyValue | None] = [made] if isinstance(made, SSAValue) else list(made)  # pyright: ignore
    count = first.count
    bound = shape(first.value)[first.axis]
    for value in results:
        if not isinstance(value, SSAValue) or np.prod(shape(value)) > MAX_ELEMENTS:
            raise NeedsHost(n.op)
        if shape(value)[axis] < bound:
            bound = shape(value)[axis]
            count = g(MinOp, count, np.array(bound, np.int64))
    assert isinstance(count, SSAValue)
    return [BoundedValue(v, axis, count) for v in results if isinstance(v, SSAValue)]


def _shape(g: Emitter, n: Node, bounded: BoundedValue) -> Value:
    """Shape of a bounded tensor: known but for one number."""
    dims: list[Value] = [np.array([d], np.int64) for d in shape(bounded.value)]
    dims[bounded.axis] = g.reshape(bounded.count, (1,))
    chosen = dims[slice(n.integer("start", 0), n.integer("end"))]
    return g(ConcatOp, chosen, axis=0) if chosen else np.zeros(0, np.int64)


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
    given = _axes(g, n)
    gone = axes_of(given, rank(n[0])) if given is not None else ()
    if not gone or axes[0] in gone:
        return None
    return axes[0] - sum(a < axes[0] for a in gone)


def _unsqueeze(g: Emitter, n: Node, axes: Mapping[int, int]) -> int:
    given = _axes(g, n) or ()
    added = axes_of(given, rank(n[0]) + len(given))
    return [a for a in range(rank(n[0]) + len(added)) if a not in added][axes[0]]


def _reduce(g: Emitter, n: Node, axes: Mapping[int, int]) -> int | None:
    given = _axes(g, n)
    gone = axes_of(given, rank(n[0])) if given else ()
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
    before = int(np.prod(shape(n[0])[: axes[0]]))
    target = g.ints(n[1], "the target of Reshape")
    done = 1
    for index, size in enumerate(target):
        copied = size == 0 and not n.flag("allowzero")
        if (size == -1 or (copied and index == axes[0])) and done == before:
            rest = int(np.prod([d for d in target[index + 1 :] if d > 0]))
            behind = int(np.prod(shape(n[0])[axes[0] + 1 :]))
            return index if rest == behind and all(d > 0 for d in target[index + 1 :]) else None
        done *= shape(n[0])[index] if copied else size
        if size == -1:
            return None
    return None


FOLLOW: dict[str, Follow] = {
    **dict.fromkeys([*elementwise.RULES, *activation.RULES, "Cast", "Identity"], _elementwise),
    "Hardmax": lambda g, n, axes: None,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Concat": _joined,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _joined,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
