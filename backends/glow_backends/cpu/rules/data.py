"""Data movement: transposes, slices, concatenations, gathers, scatters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.kernels.data import layouts
from glow_backends.cpu.kernels.data.copy import CopySpec, emit_copy
from glow_backends.cpu.kernels.data.indexing import (
    ElementsSpec,
    OneHotSpec,
    RowsSpec,
    emit_gather,
    emit_gather_elements,
    emit_one_hot,
    emit_scatter,
    emit_scatter_elements,
)
from glow_backends.cpu.kernels.data.interleave import InterleaveSpec, emit_interleave
from glow_backends.cpu.kernels.data.non_zero import NonZeroSpec, emit_non_zero
from glow_backends.cpu.kernels.data.scan import CumsumSpec, TriluSpec, emit_cumsum, emit_trilu
from glow_backends.cpu.kernels.data.suppress import SuppressSpec, emit_suppress
from glow_backends.cpu.kernels.data.top_k import TopKSpec, emit_top_k
from glow_backends.cpu.kernels.data.trees import SUMS, TOGETHER, TreesSpec, emit_trees
from glow_backends.cpu.rules.common import known, table
from glow_dialects.core.attributes import array_of
from glow_dialects.core.types import dtype_of, present, typed
from glow_dialects.ops.pad import sources

Movement = Callable[[Any, int], CopySpec]


def _movement(make: Movement) -> Rule:
    """An instruction that copies its inputs into its result by `make(op, bytes of an element)`."""

    def rule(op: Any, context: CallContext) -> KernelCall | None:
        del context
        if not known(op):
            return None
        spec = make(op, values.size(dtype_name(op.result)))
        return KernelCall(emit_copy, spec, [op.result, *op.read()[: spec.sources]])

    return rule


def _transpose(op: Any, width: int) -> CopySpec:
    return layouts.transpose_spec(shape(op.input), op.permutation, width)


def _slice(op: Any, width: int) -> CopySpec:
    return layouts.slice_spec(shape(op.input), op.starts, op.steps, shape(op.result), width)


def _tile(op: Any, width: int) -> CopySpec:
    return layouts.tile_spec(shape(op.input), op.repeats, width)


def _expand(op: Any, width: int) -> CopySpec:
    return layouts.expand_spec(shape(op.input), shape(op.result), width)


def _flip(op: Any, width: int) -> CopySpec:
    return layouts.flip_spec(shape(op.input), op.axes, width)


def _depth_to_space(op: Any, width: int) -> CopySpec:
    return layouts.depth_to_space_spec(shape(op.input), op.block, op.mode, width)


def _space_to_depth(op: Any, width: int) -> CopySpec:
    return layouts.space_to_depth_spec(shape(op.input), op.block, op.mode, width)


def concat(op: Any, context: CallContext) -> KernelCall | None:
    """Boxes one beside the other; single elements in turn are merged by shuffles."""
    del context
    if not known(op):
        return None
    parts: list[Any] = op.inputs
    shapes = [shape(v) for v in parts]
    axis: int = op.axis
    width = values.size(dtype_name(op.result))
    single = all(prod(s[axis:]) == 1 for s in shapes)
    if single and 2 <= len(parts) <= 16 and prod(shapes[0]) >= 16:
        spec = InterleaveSpec(len(parts), prod(shapes[0]), width)
        return KernelCall(emit_interleave, spec, [op.result, *parts])
    return KernelCall(emit_copy, layouts.concat_spec(shapes, axis, width), [op.result, *parts])


def insert(op: Any, context: CallContext) -> KernelCall | None:
    """One part copied over another; only the part where the result lies in the memory of `big`."""
    del context
    if not known(op):
        return None
    width = values.size(dtype_name(op.result))
    whole = op.result is not op.big
    steps = op.steps or (1,) * len(shape(op.big))
    spec = layouts.insert_spec(shape(op.big), shape(op.small), op.starts, steps, width, whole)
    return KernelCall(emit_copy, spec, [op.result, op.big, op.small] if whole else [op.result, op.small])


def pad(op: Any, context: CallContext) -> KernelCall | None:
    """Borders of one number, or copies of what is inside."""
    del context
    if not known(op):
        return None
    size, pads, kind = shape(op.input), op.pads, dtype_name(op.input)
    width, mode = values.size(kind), op.mode
    if mode == "constant":
        value = np.array(op.value).astype(dtype_of(op.input.type))
        fill = int.from_bytes(value.tobytes(), sys.byteorder)
        spec = layouts.pad_constant_spec(size, pads, width, fill)
    else:
        begins, ends = pads[: len(size)], pads[len(size) :]
        rows = zip(size, begins, ends, strict=True)
        places = [[int(i) for i in sources(n, a, z, mode)] for n, a, z in rows]
        found = layouts.lookup_spec(size, places, width)
        if found is None:
            return None
        spec = found
    return KernelCall(emit_copy, spec, [op.result, op.input])


def literal(op: Any, context: CallContext) -> KernelCall | None:
    """A copy of the values."""
    del context
    if not known(op):
        return None
    array = array_of(op.properties["value"], typed(op.result))
    assert array is not None
    spec = layouts.transpose_spec((array.size,), (0,), array.itemsize)
    return KernelCall(emit_copy, spec, [op.result, table("literal", np.ascontiguousarray(array))])


def gather(op: Any, context: CallContext) -> KernelCall | None:
    """Rows of the axis."""
    data = shape(op.data)
    axis: int = op.axis
    outer, run = prod(data[:axis]), prod(data[axis + 1 :])
    count = prod(shape(op.indices))
    if not known(op) or (data[axis] == 0 and outer * count * run):
        return None
    kinds = dtype_name(op.data), dtype_name(op.indices)
    checked = _checked(op, context, [data[axis]])
    spec = RowsSpec(outer, (data[axis],), count, run, *kinds, checked=checked is not None)
    return KernelCall(emit_gather, spec, [op.result, op.data, op.indices], checked=checked)


def _checked(op: Any, context: CallContext, limits: Sequence[int]) -> str | None:
    """What to call an operator that reports indices out of range; None where there is nothing to report.

    `limits`: the sizes of the axes that index tuples, or single indices, go into.
    """
    name: str | None = op.checked
    array = context.constant(op.indices)
    inside = array is not None and bool(((array >= -np.array(limits)) & (array < limits)).all())
    return name if context.checked and not inside else None


def gather_nd(op: Any, context: CallContext) -> KernelCall | None:
    """Rows by index tuples."""
    spec, checked = _tuples(op, context, op.batch_dims)
    operands = [op.result, op.data, op.indices]
    return None if spec is None else KernelCall(emit_gather, spec, operands, checked=checked)


def _tuples(op: Any, context: CallContext, batch: int, **more: Any) -> tuple[RowsSpec | None, str | None]:
    data, indices = shape(op.data), shape(op.indices)
    limits = data[batch : batch + indices[-1]]
    count, run = prod(indices[batch:-1]), prod(data[batch + indices[-1] :])
    if not known(op) or (0 in limits and count * run):
        return None, None
    kinds, checked = (dtype_name(op.data), dtype_name(op.indices)), _checked(op, context, limits)
    flags: dict[str, Any] = {"batched": batch > 0, "checked": checked is not None, **more}
    return RowsSpec(prod(data[:batch]), limits, count, run, *kinds, **flags), checked


def _scattered(op: Any, emit: Any, spec: Any, checked: str | None) -> KernelCall | None:
    # Sums in narrow floats would be rounded at every step, and booleans have no sums.
    if spec is None or (op.reduction != "none" and spec.dtype in (*values.NARROW, "i1")):
        return None
    data = [] if spec.in_place else [op.data]
    return KernelCall(emit, spec, [op.result, *data, op.indices, op.updates], checked=checked)


def scatter_nd(op: Any, context: CallContext) -> KernelCall | None:
    """Updates of rows by index tuples."""
    in_place = op.result is op.data
    spec, checked = _tuples(op, context, 0, reduction=op.reduction, in_place=in_place)
    return _scattered(op, emit_scatter, spec, checked)


def _elements(op: Any, context: CallContext, **more: Any) -> tuple[ElementsSpec | None, str | None]:
    data, axis = shape(op.data), op.axis
    if not known(op) or not data or data[axis] == 0:
        return None, None
    kinds, checked = (dtype_name(op.data), dtype_name(op.indices)), _checked(op, context, [data[axis]])
    return ElementsSpec(data, shape(op.indices), axis, *kinds, checked=checked is not None, **more), checked


def gather_elements(op: Any, context: CallContext) -> KernelCall | None:
    """Single elements of the axis."""
    spec, checked = _elements(op, context)
    operands = [op.result, op.data, op.indices]
    return None if spec is None else KernelCall(emit_gather_elements, spec, operands, checked=checked)


def scatter_elements(op: Any, context: CallContext) -> KernelCall | None:
    """Updates of single elements of the axis."""
    spec, checked = _elements(op, context, reduction=op.reduction, in_place=op.result is op.data)
    return _scattered(op, emit_scatter_elements, spec, checked)


def one_hot(op: Any, context: CallContext) -> KernelCall | None:
    """A fill, and the on values."""
    del context
    if not known(op):
        return None
    size, axis = shape(op.indices), op.axis
    kinds = dtype_name(op.values), dtype_name(op.indices)
    spec = OneHotSpec(prod(size[:axis]), op.depth, prod(size[axis:]), *kinds)
    return KernelCall(emit_one_hot, spec, [op.result, op.indices, op.values])


def cumsum(op: Any, context: CallContext) -> KernelCall | None:
    """Running sums."""
    del context
    size, kind = shape(op.input), dtype_name(op.input)
    axis: int = op.axis
    if not known(op) or kind == "i1":
        return None
    flags = op.exclusive, op.reverse
    spec = CumsumSpec(prod(size[:axis]), size[axis], prod(size[axis + 1 :]), *flags, kind)
    return KernelCall(emit_cumsum, spec, [op.result, op.input])


def trilu(op: Any, context: CallContext) -> KernelCall | None:
    """Triangles."""
    del context
    if not known(op):
        return None
    *outer, rows, columns = shape(op.input)
    diagonal = max(-rows - 1, min(columns + 1, op.k))
    width = values.size(dtype_name(op.input))
    spec = TriluSpec(prod(outer), rows, columns, op.upper, diagonal, width)
    return KernelCall(emit_trilu, spec, [op.result, op.input])


def top_k(op: Any, context: CallContext) -> KernelCall | None:
    """The best of every line."""
    size, kind = shape(op.input), dtype_name(op.input)
    axis: int = op.axis
    if not known(op):
        return None
    inner = prod(size[axis + 1 :])
    spec = TopKSpec(prod(size[:axis]), size[axis], inner, op.k, op.largest, kind)
    scratch = spec.scratch * context.target.threads
    return KernelCall(emit_top_k, spec, [op.values, op.indices, op.input], scratch)


def tree_sums(op: Any, context: CallContext) -> KernelCall | None:
    """Sums over trees."""
    (samples, width), (nodes, targets) = shape(op.input), shape(op.weights)
    if dtype_name(op.input) != "f32" or targets > SUMS // (TOGETHER * context.target.lanes):
        return None
    if max(nodes * targets, width * SUMS) >= 1 << 31:
        return None
    spec = TreesSpec(samples, width, prod(shape(op.roots)), targets, op.depth)
    return KernelCall(emit_trees, spec, [op.result, *op.read()])


def non_zero(op: Any, context: CallContext) -> KernelCall | None:
    """Places, in order."""
    del context
    if not known(op):
        return None
    spec = NonZeroSpec(shape(op.input), dtype_name(op.input))
    return KernelCall(emit_non_zero, spec, [op.indices, op.count, op.input])


def non_max_suppression(op: Any, context: CallContext) -> KernelCall | None:
    """Boxes of every class, the best first."""
    del context
    kinds = [dtype_name(v) for v in (op.boxes, op.overlap, *present(op.threshold))]
    if not all(values.is_float(kind) for kind in kinds) or {
        dtype_name(op.most),
        dtype_name(op.available),
    } != {"i64"}:
        return None
    batches, classes, boxes = shape(op.scores)
    spec = SuppressSpec(
        batches, classes, boxes, op.limit, op.center_point_box, kinds[0], kinds[1], *kinds[2:]
    )
    return KernelCall(emit_suppress, spec, [*op.written(), *op.read()], spec.scratch)


RULES: dict[str, Rule] = {
    "transpose": _movement(_transpose),
    "concat": concat,
    "slice": _movement(_slice),
    "tile": _movement(_tile),
    "expand": _movement(_expand),
    "flip": _movement(_flip),
    "depth_to_space": _movement(_depth_to_space),
    "space_to_depth": _movement(_space_to_depth),
    "insert": insert,
    "pad": pad,
    "literal": literal,
    "gather": gather,
    "gather_nd": gather_nd,
    "gather_elements": gather_elements,
    "scatter_nd": scatter_nd,
    "scatter_elements": scatter_elements,
    "one_hot": one_hot,
    "cumsum": cumsum,
    "tree_sums": tree_sums,
    "trilu": trilu,
    "top_k": top_k,
    "non_zero": non_zero,
    "non_max_suppression": non_max_suppression,
}
