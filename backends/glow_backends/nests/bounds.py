"""Whether every element that a scheduled kernel touches lies in its view, or in the border of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.exceptions import VerifyException

from glow_backends.nests.operations import NestOp, PackOp, memory_of
from glow_backends.nests.schedule import Schedule

Range = tuple[int, int | None]
"""The least and the largest number; None: what only the call tells."""


def check_bounds(ops: Iterable[Operation], schedule: Schedule | None) -> None:
    """Raise unless the accesses of all nests of a kernel are inside, as the schedule cuts them."""
    for op in ops:
        if isinstance(op, NestOp):
            _check_nest(op, schedule)


def _check_nest(op: NestOp, schedule: Schedule | None) -> None:
    exact = [_loop_range(v.size) for v in op.loops.data]
    for number, (index, view) in enumerate(zip(op.maps, op.views, strict=True)):
        ranges = exact
        if schedule is not None and number < len(op.ins) and len(op.ins) == 2:
            ranges = _scheduled(op, schedule, number, exact)
        reached = [_range(e, ranges) for e in index.data.results]
        _check_view(op, view, reached, number)


def _scheduled(op: NestOp, schedule: Schedule, number: int, exact: Sequence[Range]) -> list[Range]:
    """The loops as a contraction runs them: whole instructions along the sum, whole panels of columns.

    Vector instructions leave out what is not there where an operand is read as it lies.
    """
    unit, own = schedule.unit, op.ins[number]
    packed = isinstance(own.owner, PackOp) or _is_panels(own, op, number)
    if not packed and not unit.is_tile:
        return list(exact)
    used = {d for e in op.maps.data[number].data.results for d in e.used_dims()}
    other = {d for e in op.maps.data[1 - number].data.results for d in e.used_dims()}
    ranges = list(exact)
    last = max(i for i, v in enumerate(op.loops.data) if v.reduced)
    ranges[last] = _whole(exact[last], unit.k)
    if number == 1:
        column = max(i for i in used - other if not op.loops.data[i].reduced)
        ranges[column] = _whole(exact[column], schedule.width)
    return ranges


def _is_panels(view: SSAValue, op: NestOp, number: int) -> bool:
    """Whether an operand comes packed: its map divides indices of loops."""
    return any(isinstance(e, AffineBinaryOpExpr) and _divides(e) for e in op.maps.data[number].data.results)


def _divides(e: AffineExpr) -> bool:
    kinds = (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)
    return any(isinstance(v, AffineBinaryOpExpr) and v.kind in kinds for v in e.dfs())


def _whole(given: Range, size: int) -> Range:
    low, high = given
    return low, None if high is None else -(-(high + 1) // size) * size - 1


def _loop_range(size: int | None) -> Range:
    return 0, None if size is None else max(size, 1) - 1


def _check_view(op: NestOp, view: SSAValue, reached: Sequence[Range], number: int) -> None:
    assert isinstance(view.type, MemRefType)
    border = memory_of(view.type).border or (0,) * len(reached)
    for axis, ((low, high), size, beyond) in enumerate(
        zip(reached, view.type.get_shape(), border, strict=True)
    ):
        if size == DYNAMIC_INDEX:
            continue
        if high is None:
            raise VerifyException(
                f"{op.name}: axis {axis} of view {number}, {view.type}, is reached by an open loop; open it"
            )
        if low < -beyond or high >= size + beyond:
            raise VerifyException(
                f"{op.name}: axis {axis} of view {number}, {view.type}, is reached from {low} to {high}"
                "; give it a border, or other loops or instructions"
            )


def _range(e: AffineExpr, loops: Sequence[Range]) -> Range:
    """The least and the largest value of an index."""
    if isinstance(e, AffineConstantExpr):
        return e.value, e.value
    if isinstance(e, AffineDimExpr):
        return loops[e.position]
    assert isinstance(e, AffineBinaryOpExpr), "maps have no symbols"
    (low, high), (other, most) = _range(e.lhs, loops), _range(e.rhs, loops)
    if e.kind == AffineBinaryOpKind.Add:
        return low + other, None if high is None or most is None else high + most
    return _by_number(e.kind, low, high, other)


def _by_number(kind: AffineBinaryOpKind, low: int, high: int | None, number: int) -> Range:
    if kind == AffineBinaryOpKind.Mod:
        inside = high is not None and low // number == high // number
        return (low % number, high % number) if inside and high is not None else (0, number - 1)
    results: Mapping[AffineBinaryOpKind, list[int | None]] = {
        AffineBinaryOpKind.Mul: [low * number, None if high is None else high * number],
        AffineBinaryOpKind.FloorDiv: [low // number, None if high is None else high // number],
        AffineBinaryOpKind.CeilDiv: [-(-low // number), None if high is None else -(-high // number)],
    }
    first, last = results[kind]
    if number < 0 and kind == AffineBinaryOpKind.Mul:
        first, last = last, first
    if first is None:
        raise VerifyException("an index falls with an open loop, and has no least value; bound the loop")
    return first, last
