"""Gathers, scatters and one-hot vectors: addresses that come from the data.

An index below zero counts from the end. One that is out of range is brought into range, so that no memory
outside the operands is touched; a kernel that is `checked` reports it, by a pointer behind its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.kernels.reduction.reduce import combiner
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.one_hot import OneHotOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp

_COMBINE = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


@dataclass(frozen=True)
class RowsSpec:
    """Rows of `run` contiguous elements found by index tuples.

    A tensor `data` is [outer, *limits, run]; `indices` is [outer (if `batched`), count, len(limits)];
    `rows` is [outer, count, run]. Gather: rows = data at the indices; operands: rows, data, indices.
    Scatter: `reduction` (none, add, mul, max, min) of data and rows at the indices, one after
    another; operands: result, data (left out with `in_place`), indices, rows.
    """

    outer: int
    limits: tuple[int, ...]
    count: int
    run: int
    dtype: str
    index_dtype: str
    batched: bool = False
    reduction: str = "none"
    in_place: bool = False
    checked: bool = False

    @property
    def bytes_touched(self) -> int:
        """Bytes read and written, to decide about workers."""
        return 2 * self.outer * self.count * self.run * values.size(self.dtype)


def position(
    k: KernelBuilder, pointer: ir.Value, place: Index, dtype: str, limit: Index, faults: ir.Value | None
) -> ir.Value:
    """The index stored at `place`, counted from the end where negative, brought below `limit`.

    One that is out of range is reported to `faults` (see `glow_backends.cpu.faults`), if that is given.
    """
    raw = values.load(k, pointer, place, dtype)
    if raw.type != I64:
        raw = k.b.sext(raw, I64) if values.is_signed(dtype) else k.b.zext(raw, I64)
    at = raw
    if values.is_signed(dtype):
        negative = k.b.icmp_signed("<", raw, k.i(0))
        at = k.b.select(negative, k.b.add(raw, k.i(limit)), raw)
    inside = k.b.icmp_unsigned("<", at, k.i(limit))
    common.report(k, inside, raw, limit, faults)
    return k.b.select(inside, at, k.i(k.add(limit, -1)))


def _operands(
    module: ir.Module, name: str, count: int, spec: RowsSpec | ElementsSpec, target: CpuTarget
) -> tuple[KernelBuilder, list[ir.Value], ir.Value | None]:
    """A kernel, its operands, and where it reports indices out of range."""
    k = KernelBuilder(module, name, count + spec.checked, target, sized=True)
    operands = list(k.operands)
    return k, operands[:count], operands[count] if spec.checked else None


def _row(
    k: KernelBuilder, spec: RowsSpec, o: Index, i: Index, indices: ir.Value, faults: ir.Value | None
) -> Index:
    """The offset in the data of the row that index tuple `i` of `o` names."""
    depth = len(spec.limits)
    strides = common.row_major((*spec.limits, spec.run))
    tuple_at = k.mul(i, depth)
    if spec.batched:
        tuple_at = k.add(tuple_at, k.mul(o, common.length(k, spec.count * depth)))
    total = k.mul(o, common.length(k, common.product(spec.limits) * spec.run))
    for axis, limit in enumerate(spec.limits):
        place = k.add(tuple_at, axis)
        where = position(k, indices, place, spec.index_dtype, common.length(k, limit), faults)
        step = strides[axis] if axis == depth - 1 else common.length(k, strides[axis])
        total = k.add(total, k.mul(where, step))
    return total


def _move(
    k: KernelBuilder,
    dtype: str,
    run: int,
    transfer: Callable[[Index, int, Active], None],
) -> None:
    """Call transfer(place, lanes, active) over a run of elements."""
    lanes = max(1, k.target.vector_bytes // values.width(dtype))
    for place, width, active in common.sized_strips(k, 0, run, lanes, 4):
        transfer(place, width, active)


def emit_gather(module: ir.Module, name: str, spec: RowsSpec, target: CpuTarget) -> ir.Function:
    """Emit gather and gather_nd; see `RowsSpec` for the operands."""
    k, (rows, data, indices), faults = _operands(module, name, 3, spec, target)
    dtype = f"u{8 * values.size(spec.dtype)}"
    if spec.outer * spec.count * spec.run:
        with common.nest(k, [spec.outer, spec.count], spec.bytes_touched) as (o, i):
            origin = _row(k, spec, o, i, indices, faults)
            to = k.mul(k.add(k.mul(o, common.length(k, spec.count)), i), spec.run)

            def transfer(place: Index, lanes: int, active: Active) -> None:
                value = values.load(k, data, k.add(origin, place), dtype, lanes, active)
                values.store(k, value, rows, k.add(to, place), dtype, active)

            _move(k, dtype, spec.run, transfer)
    return k.finish()


def emit_scatter(module: ir.Module, name: str, spec: RowsSpec, target: CpuTarget) -> ir.Function:
    """Emit scatter_nd by one worker, as later updates may meet the same rows."""
    k, (result, *_, indices, rows), faults = _operands(module, name, 3 if spec.in_place else 4, spec, target)
    total = spec.outer * common.product(spec.limits) * spec.run
    with common.first_worker(k):
        if not spec.in_place:
            copy_all(k, spec.dtype, total)
        if spec.outer * spec.count * spec.run:
            outer, count = common.length(k, spec.outer), common.length(k, spec.count)
            with k.loop(0, outer) as o, k.loop(0, count) as i:
                to = _row(k, spec, o, i, indices, faults)
                origin = k.mul(k.add(k.mul(o, count), i), spec.run)

                def transfer(place: Index, lanes: int, active: Active) -> None:
                    value = values.load(k, rows, k.add(origin, place), spec.dtype, lanes, active)
                    _update(k, spec.reduction, spec.dtype, result, k.add(to, place), value, active)

                _move(k, spec.dtype, spec.run, transfer)
    return k.finish()


def copy_all(k: KernelBuilder, dtype: str, count: int) -> None:
    """Operand 1 copied to operand 0 by the worker that is here."""
    dtype = f"u{8 * values.size(dtype)}"

    def transfer(place: Index, lanes: int, active: Active) -> None:
        value = values.load(k, k.operands[1], place, dtype, lanes, active)
        values.store(k, value, k.operands[0], place, dtype, active)

    _move(k, dtype, count, transfer)


def _update(
    k: KernelBuilder,
    reduction: str,
    dtype: str,
    result: ir.Value,
    place: Index,
    value: ir.Value,
    active: Active | None,
) -> None:
    """result[place] = value, or combined with the old value."""
    if reduction != "none":
        before = values.load(k, result, place, dtype, values.lanes_of(value.type), active)
        value = combiner(_COMBINE[reduction], dtype)(k, before, value)
    values.store(k, value, result, place, dtype, active)


@dataclass(frozen=True)
class ElementsSpec:
    """Elements whose place along `axis` comes from the data, at every place of `shape`.

    Gather: result (`shape`) = data (`data_shape`) at the indices (`shape`); operands: result, data,
    indices. Scatter: as in `RowsSpec`, with updates of `shape`; operands: result, data (left out
    with `in_place`), indices, updates.
    """

    data_shape: tuple[int, ...]
    shape: tuple[int, ...]
    axis: int
    dtype: str
    index_dtype: str
    reduction: str = "none"
    in_place: bool = False
    checked: bool = False


def emit_gather_elements(module: ir.Module, name: str, spec: ElementsSpec, target: CpuTarget) -> ir.Function:
    """Emit gather_elements; see `ElementsSpec` for the operands."""
    k, (result, data, indices), faults = _operands(module, name, 3, spec, target)
    dtype = f"u{8 * values.size(spec.dtype)}"
    if common.product(spec.shape):
        size = 2 * common.product(spec.shape) * values.size(spec.dtype)
        with common.nest(k, spec.shape, size) as at:
            here = common.offset(k, at, common.row_major(spec.shape))
            value = values.load(k, data, _element(k, spec, list(at), here, indices, faults), dtype)
            values.store(k, value, result, here, dtype)
    return k.finish()


def emit_scatter_elements(module: ir.Module, name: str, spec: ElementsSpec, target: CpuTarget) -> ir.Function:
    """Emit scatter_elements by one worker."""
    k, (result, *_, indices, updates), faults = _operands(
        module, name, 3 if spec.in_place else 4, spec, target
    )
    with common.first_worker(k):
        if not spec.in_place:
            copy_all(k, spec.dtype, common.product(spec.data_shape))
        if common.product(spec.shape):
            with common.nest(k, spec.shape, 0, shared=False) as at:
                here = common.offset(k, at, common.row_major(spec.shape))
                value = values.load(k, updates, here, spec.dtype)
                place = _element(k, spec, list(at), here, indices, faults)
                _update(k, spec.reduction, spec.dtype, result, place, value, None)
    return k.finish()


def _element(
    k: KernelBuilder,
    spec: ElementsSpec,
    at: list[Index],
    here: Index,
    indices: ir.Value,
    faults: ir.Value | None,
) -> Index:
    """The offset in the data that the index at `here` names."""
    limit = common.length(k, spec.data_shape[spec.axis])
    at[spec.axis] = position(k, indices, here, spec.index_dtype, limit, faults)
    return common.offset(k, at, common.row_major(spec.data_shape))


@dataclass(frozen=True)
class OneHotSpec:
    """result[o, d, i] = values[indices[o, i] == d]. Operands: result, indices, values (off, on)."""

    outer: int
    depth: int
    inner: int
    dtype: str
    index_dtype: str


def emit_one_hot(module: ir.Module, name: str, spec: OneHotSpec, target: CpuTarget) -> ir.Function:
    """Emit a fill with the off value, then the on value where an index points."""
    k = KernelBuilder(module, name, 3, target, sized=True)
    result, indices, pair = k.operands
    dtype = f"u{8 * values.size(spec.dtype)}"
    block = spec.depth * spec.inner
    if not spec.outer * block:
        return k.finish()
    off, on = (values.load(k, pair, i, dtype) for i in (0, 1))
    with common.nest(k, [spec.outer], spec.outer * block * values.size(spec.dtype)) as (o,):
        base = k.mul(o, common.length(k, block))
        inner, depth = common.length(k, spec.inner), common.length(k, spec.depth)

        def fill(place: Index, lanes: int, active: Active) -> None:
            values.store(k, values.splat(k, off, lanes), result, k.add(base, place), dtype, active)

        _move(k, dtype, block, fill)
        with k.loop(0, inner) if spec.inner > 1 else nullcontext(k.i(0)) as i:
            raw = values.load(k, indices, k.add(k.mul(o, inner), i), spec.index_dtype)
            if raw.type != I64:
                raw = k.b.sext(raw, I64) if values.is_signed(spec.index_dtype) else k.b.zext(raw, I64)
            negative = k.b.icmp_signed("<", raw, k.i(0))
            raw = k.b.select(negative, k.b.add(raw, k.i(depth)), raw)
            with k.b.if_then(k.b.icmp_unsigned("<", raw, k.i(depth))):
                place = k.add(k.add(base, k.mul(raw, inner)), i)
                values.store(k, on, result, place, dtype)
    return k.finish()


_Indexing = GatherOp | GatherNdOp | GatherElementsOp | ScatterNdOp | ScatterElementsOp
_I = TypeVar("_I", bound=_Indexing)
_R = TypeVar("_R", bound=RowsSpec | ElementsSpec)


class _Indexed(Kernel[_I, _R]):
    """Places that come from data."""

    def reports(self, op: _I, context: CallContext, limits: Sequence[int]) -> bool:
        """Whether indices may be out of range and the operator reports that.

        `limits`: the sizes of the axes that index tuples, or single indices, go into.
        """
        array = context.constant(op.indices)
        inside = array is not None and bool(((array >= -np.array(limits)) & (array < limits)).all())
        return op.checked is not None and context.checked and not inside

    def checked(self, op: _I, spec: _R) -> str | None:
        return op.checked if spec.checked else None

    def operands(self, op: _I, spec: _R, context: CallContext) -> list[Operand]:
        _, data, *rest = op.operands
        return [op.result, *([] if spec.in_place else [data]), *rest]


class Gather(_Indexed[GatherOp, RowsSpec]):
    """Rows of an axis."""

    OPS = (GatherOp,)
    emit = staticmethod(emit_gather)

    def match(self, op: GatherOp, context: CallContext) -> RowsSpec | None:
        data, axis = shape(op.data), op.axis
        outer, run = prod(data[:axis]), prod(data[axis + 1 :])
        count = prod(shape(op.indices))
        if not known(op) or (data[axis] == 0 and outer * count * run):
            return None
        kinds, checked = (
            (dtype_name(op.data), dtype_name(op.indices)),
            self.reports(op, context, [data[axis]]),
        )
        return RowsSpec(outer, (data[axis],), count, run, *kinds, checked=checked)


class _Tuples(_Indexed[_I, RowsSpec]):
    """Rows by index tuples."""

    def rows(self, op: _I, context: CallContext, batch: int = 0) -> RowsSpec | None:
        """The rows, of `batch` leading axes together."""
        data, indices = shape(op.data), shape(op.indices)
        limits = data[batch : batch + indices[-1]]
        count, run = prod(indices[batch:-1]), prod(data[batch + indices[-1] :])
        if not known(op) or (0 in limits and count * run):
            return None
        kinds, checked = (dtype_name(op.data), dtype_name(op.indices)), self.reports(op, context, limits)
        return RowsSpec(prod(data[:batch]), limits, count, run, *kinds, batched=batch > 0, checked=checked)


class GatherNd(_Tuples[GatherNdOp]):
    """Rows by index tuples."""

    OPS = (GatherNdOp,)
    emit = staticmethod(emit_gather)

    def match(self, op: GatherNdOp, context: CallContext) -> RowsSpec | None:
        return self.rows(op, context, op.batch_dims)


def _combines(reduction: str, dtype: str) -> bool:
    """Whether updates can be: sums in narrow floats would be rounded each time, booleans have none."""
    return reduction == "none" or dtype not in (*values.NARROW, "i1")


class ScatterNd(_Tuples[ScatterNdOp]):
    """Updates of rows by index tuples."""

    OPS = (ScatterNdOp,)
    emit = staticmethod(emit_scatter)

    def match(self, op: ScatterNdOp, context: CallContext) -> RowsSpec | None:
        spec = self.rows(op, context)
        if spec is None or not _combines(op.reduction, spec.dtype):
            return None
        return replace(spec, reduction=op.reduction, in_place=op.result is op.data)


class _Elements(_Indexed[_I, ElementsSpec]):
    """Single elements of an axis."""

    def elements(self, op: _I, axis: int, context: CallContext) -> ElementsSpec | None:
        """The elements along an axis."""
        data = shape(op.data)
        if not known(op) or not data or data[axis] == 0:
            return None
        kinds, checked = (
            (dtype_name(op.data), dtype_name(op.indices)),
            self.reports(op, context, [data[axis]]),
        )
        return ElementsSpec(data, shape(op.indices), axis, *kinds, checked=checked)


class GatherElements(_Elements[GatherElementsOp]):
    """Single elements of an axis."""

    OPS = (GatherElementsOp,)
    emit = staticmethod(emit_gather_elements)

    def match(self, op: GatherElementsOp, context: CallContext) -> ElementsSpec | None:
        return self.elements(op, op.axis, context)


class ScatterElements(_Elements[ScatterElementsOp]):
    """Updates of single elements of an axis."""

    OPS = (ScatterElementsOp,)
    emit = staticmethod(emit_scatter_elements)

    def match(self, op: ScatterElementsOp, context: CallContext) -> ElementsSpec | None:
        spec = self.elements(op, op.axis, context)
        if spec is None or not _combines(op.reduction, spec.dtype):
            return None
        return replace(spec, reduction=op.reduction, in_place=op.result is op.data)


class OneHot(Kernel[OneHotOp, OneHotSpec]):
    """A fill, and the on values."""

    OPS = (OneHotOp,)
    emit = staticmethod(emit_one_hot)

    def match(self, op: OneHotOp, context: CallContext) -> OneHotSpec | None:
        size, kinds = shape(op.indices), (dtype_name(op.values), dtype_name(op.indices))
        sizes = prod(size[: op.axis]), op.depth, prod(size[op.axis :])
        return OneHotSpec(*sizes, *kinds) if known(op) else None
