"""Tables that are larger than any device, as several: each device looks up the rows that it has."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.builder import Builder
from glow_dialects.core.types import bytes_of, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpLtOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, module_of
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_passes.graph.symbols import Symbols


def spread(function: FuncOp, most: int) -> int:
    """Take tables of more than `most` bytes apart, of which rows are looked up and no more; their number.

    gather(table, i)  ->  i - n >= 0 ? gather(rows from n on, i - n) : gather(rows before n, i)

    The results are the same, bit for bit; an index out of range is an error where it was one. No lookup reads
    what another has worked out, so that devices do them at once.
    """
    module = module_of(function)
    assert module is not None
    symbols = Symbols(module)
    found = _tables(function, symbols, most)
    for table, lookups in found.items():
        rows = shape_of(table.type)[0]
        parts = min(rows, -(-bytes_of(table.type) // max(most, 1)))
        starts = [rows * part // parts for part in range(parts + 1)]
        pieces = [_piece(table, symbols, a, b) for a, b in zip(starts, starts[1:], strict=False)]
        for lookup in lookups:
            _replace(lookup, pieces, starts)
    symbols.sweep()
    return len(found)


def _tables(function: FuncOp, symbols: Symbols, most: int) -> dict[ConstantOp, list[GatherOp]]:
    """The constants that are too large, and the nodes that look rows of them up."""
    tables: dict[ConstantOp, list[GatherOp]] = {}
    others: set[ConstantOp] = set()
    for get in [op for op in function.walk() if isinstance(op, GetOp)]:
        table = symbols.constant(get)
        if table is None or bytes_of(table.type) <= most or table.array() is None:
            continue
        for use in get.result.uses:
            if isinstance(use.operation, GatherOp) and use.index == 0 and _is_plain(use.operation):
                tables.setdefault(table, []).append(use.operation)
            else:
                others.add(table)
    return {t: lookups for t, lookups in tables.items() if t not in others and shape_of(t.type)[0] > 1}


def _is_plain(op: GatherOp) -> bool:
    """Whether it looks up rows, by indices that can count them, from both ends."""
    dtype = dtype_of(typed(op.indices))
    return op.axis == 0 and dtype.kind == "i" and dtype.itemsize >= 4


def _piece(table: ConstantOp, symbols: Symbols, start: int, end: int) -> ConstantOp:
    array = table.array()
    assert array is not None
    kind = tensor((end - start, *shape_of(table.type)[1:]), element_of(table.type))
    return symbols.add(array[start:end], kind, f"{table.sym_name.data}_{start}")


def _replace(lookup: GatherOp, pieces: list[ConstantOp], starts: list[int]) -> None:
    """Put lookups of the pieces in the place of one of the whole."""
    b = Builder.before(lookup)
    rows = starts[-1]
    result: SSAValue | None = None
    for piece, start in zip(pieces, starts, strict=False):
        count = shape_of(piece.type)[0]
        index = _from(lookup.indices, start, rows, b)
        local = _local(index, start, count, start + count == rows, bool(lookup.checked), b)
        get = b.insert(GetOp.of(piece))
        get.result.name_hint = piece.sym_name.data
        text = lookup.checked
        if text and not text.endswith("."):
            text = f"{text} (rows from {start} on)"
        found = b(GatherOp(get.result, local, axis=0, checked=text))
        if result is not None:
            here = b(CmpGeOp(index, b.scalar(0, index)))
            ones = (1,) * (len(shape_of(found)) - len(shape_of(here)))
            if ones:
                here = b(ReshapeOp.to(here, (*shape_of(here), *ones)))
            found = b(SelectOp(here, found, result))
        result = found
    assert result is not None
    result.name_hint = lookup.result.name_hint
    lookup.result.replace_all_uses_with(result)
    read = lookup.data.owner
    assert isinstance(read, GetOp)
    Rewriter.erase_op(lookup)
    if not read.result.uses:
        Rewriter.erase_op(read)


def _from(indices: SSAValue, start: int, rows: int, b: Builder) -> SSAValue:
    """Indices of a table of some rows, those from its end included, counted from a row on."""
    index = b(SubOp(indices, b.scalar(start, indices))) if start else indices
    below = b(CmpLtOp(index, b.scalar(-start, indices)))
    return b(SelectOp(below, b(AddOp(index, b.scalar(rows, indices))), index))


def _local(index: SSAValue, start: int, count: int, last: bool, checked: bool, b: Builder) -> SSAValue:
    """Indices from the start of a piece as any row of it for those of others, none for those of no piece."""
    top = b.scalar(count - 1, index)
    if start:
        index = b(MaxOp(index, b.scalar(0, index)))
    elif checked:
        none = b(CmpLtOp(index, b.scalar(0, index)))
        return b(SelectOp(none, b.scalar(count, index), b(MinOp(index, top))))
    return index if last and checked else b(MinOp(index, top))
