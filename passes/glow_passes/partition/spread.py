"""Tables that are larger than any device, as several: each device looks up the rows that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.builder import Builder
from glow_dialects.core.types import bytes_of, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpLtOp
from glow_dialects.ops.dequantize_blocks import FORM, DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, module_of
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_passes.graph.symbols import Symbols


def spread(function: FuncOp, most: int) -> int:
    """Take tables of more than `most` bytes apart, of which rows are looked up and no more; their number.

    gather(table, i)  ->  i - n >= 0 ? gather(rows from n on, i - n) : gather(rows before n, i)

    The results are the same, bit for bit; an index out of range is an error where it was one. No lookup reads
    what another has worked out, so that devices do them at once. The matrices of experts are taken apart
    likewise; their rows lie together in other numbers then, which may change the last bits of sums.
    """
    module = module_of(function)
    assert module is not None
    symbols = Symbols(module)
    found = _tables(function, symbols, most)
    for tables, lookups in found.items():
        rows = shape_of(tables[0].type)[0]
        parts = min(rows, -(-_bytes(tables) // max(most, 1)))
        starts = [rows * part // parts for part in range(parts + 1)]
        pieces = [
            [_piece(t, symbols, a, b) for t in tables] for a, b in zip(starts, starts[1:], strict=False)
        ]
        for lookup in lookups:
            _replace(lookup, pieces, starts)
    symbols.sweep()
    return len(found)


def _tables(
    function: FuncOp, symbols: Symbols, most: int
) -> dict[tuple[ConstantOp, ...], list[GatherOp | ExpertMatmulOp]]:
    """The constants that are too large, those of one matrix of codes together, and the nodes that look up."""
    found: dict[tuple[ConstantOp, ...], list[GatherOp | ExpertMatmulOp]] = {}
    for op in function.walk():
        if isinstance(op, ExpertMatmulOp) or (isinstance(op, GatherOp) and _is_plain(op)):
            tables = [symbols.constant(v.owner) for v in _parts(op) if isinstance(v.owner, GetOp)]
            known = tuple(t for t in tables if t is not None and t.array() is not None)
            if len(known) == len(_parts(op)) and shape_of(known[0].type)[0] > 1 and _bytes(known) > most:
                found.setdefault(known, []).append(op)
    gets = [op for op in function.walk() if isinstance(op, GetOp)] if found else []
    return {
        tables: lookups
        for tables, lookups in found.items()
        if all(_is_looked_up(get.result, lookups) for get in gets if symbols.constant(get) in tables)
    }


def _table(lookup: GatherOp | ExpertMatmulOp) -> SSAValue:
    return lookup.data if isinstance(lookup, GatherOp) else lookup.weights


def _parts(lookup: GatherOp | ExpertMatmulOp) -> Sequence[SSAValue]:
    """The table of a lookup, or what it is unpacked from."""
    table = _table(lookup)
    owner = table.owner
    return owner.operands if isinstance(owner, DequantizeBlocksOp) else [table]


def _bytes(tables: Sequence[ConstantOp]) -> int:
    return sum(bytes_of(table.type) for table in tables)


def _is_looked_up(value: SSAValue, lookups: Sequence[Operation]) -> bool:
    """Whether nothing but these lookups reads a table."""
    for use in value.uses:
        reader = use.operation
        if isinstance(reader, DequantizeBlocksOp) and _is_looked_up(reader.result, lookups):
            continue
        if reader not in lookups or use.index != isinstance(reader, ExpertMatmulOp):
            return False
    return True


def _is_plain(op: GatherOp) -> bool:
    """Whether it looks up rows, by indices that can count them, from both ends."""
    dtype = dtype_of(typed(op.indices))
    return op.axis == 0 and dtype.kind == "i" and dtype.itemsize >= 4


def _piece(table: ConstantOp, symbols: Symbols, start: int, end: int) -> ConstantOp:
    array = table.array()
    assert array is not None
    kind = tensor((end - start, *shape_of(table.type)[1:]), element_of(table.type))
    return symbols.add(array[start:end], kind, f"{table.sym_name.data}_{start}")


def _replace(lookup: GatherOp | ExpertMatmulOp, pieces: list[list[ConstantOp]], starts: list[int]) -> None:
    """Put lookups of the pieces in the place of one of the whole."""
    b = Builder.before(lookup)
    rows = starts[-1]
    result: SSAValue | None = None
    indices = lookup.indices if isinstance(lookup, GatherOp) else lookup.experts
    checked = lookup.checked if isinstance(lookup, GatherOp) else None
    for piece, start in zip(pieces, starts, strict=False):
        count = shape_of(piece[0].type)[0]
        index = _from(indices, start, rows, b)
        local = _local(index, start, count, start + count == rows, bool(checked), b)
        gets = [b.insert(GetOp.of(part)).result for part in piece]
        for get, part in zip(gets, piece, strict=True):
            get.name_hint = part.sym_name.data
        table = _unpacked(_table(lookup), gets, b)
        if isinstance(lookup, ExpertMatmulOp):
            found = b(ExpertMatmulOp(lookup.x, table, local))
        else:
            text = checked
            if text and not text.endswith("."):
                text = f"{text} (rows from {start} on)"
            found = b(GatherOp(table, local, axis=0, checked=text))
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
    reads = [_table(lookup), *_parts(lookup)]
    Rewriter.erase_op(lookup)
    for read in dict.fromkeys(v.owner for v in reads):
        if isinstance(read, Operation) and not any(v.uses for v in read.results):
            Rewriter.erase_op(read)


def _unpacked(table: SSAValue, parts: Sequence[SSAValue], b: Builder) -> SSAValue:
    """A piece of a table, as that is unpacked."""
    whole = table.owner
    if not isinstance(whole, DequantizeBlocksOp):
        return parts[0]
    form: dict[str, Any] = {n: whole.properties[n] for n in FORM if n in whole.properties}
    return b(DequantizeBlocksOp(*parts, **form))


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
