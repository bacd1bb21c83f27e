"""The graph of a module at any level, for the compilation page: nodes, operands, origins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.location import names, parts_of
from glow_dialects.instr.memory import AllocOp, DeallocOp, ViewOp, WeightOp, origin
from glow_dialects.ops.module import ConstantOp, PlaceholderOp
from glow_passes.listing import Listing

#: Characters of an operation's text that a page holds.
TEXT_LENGTH = 300

#: Number of the operation, operator, name, scope, text, numbers of the operations that it reads.
Node = tuple[int, str, str, str, str, tuple[int, ...]]


class Numbers:
    """A number for each operation, the same in all passes."""

    def __init__(self) -> None:
        self._known: dict[Operation, int] = {}
        self._next = count()

    def of(self, op: Operation) -> int:
        """The number of an operation."""
        if op not in self._known:
            self._known[op] = next(self._next)
        return self._known[op]


def nodes(module: ModuleOp, numbers: Numbers, listing: Listing) -> list[Node]:
    """The operations of the functions of a module that compute something."""
    found: list[Node] = []
    functions = [op for op in module.ops if op.regions]
    for function in functions:
        name = getattr(function.get_attr_or_prop("sym_name"), "data", function.name)
        scope = (name,) if len(functions) > 1 else ()
        found += _inside(function, scope, numbers, listing)
    return found


def _inside(
    function: Operation, scope: tuple[str, ...], numbers: Numbers, listing: Listing
) -> Iterator[Node]:
    written: dict[SSAValue, Operation] = {}
    drawn: set[Operation] = set()
    for op in _drawn(function):
        drawn.add(op)
        reads = dict.fromkeys(
            number for v in _read(op) if (number := _source(v, written, drawn, numbers)) is not None
        )
        parts, name = _name(op)
        text = " ".join(listing.text(op).split())
        text = text if len(text) <= TEXT_LENGTH else text[:TEXT_LENGTH] + "..."
        number = numbers.of(op)
        reads.pop(number, None)
        yield number, op.name, name, "/".join((*scope, *parts)), text, tuple(reads)
        if isinstance(op, InstrOp):
            written.update((origin(v), op) for v in op.written())


def _drawn(function: Operation) -> Iterator[Operation]:
    """Operations that do something, those of fused bodies left to the text of what holds them."""
    for region in function.regions:
        for block in region.blocks:
            for op in block.ops:
                if isinstance(op, AllocOp | DeallocOp | ViewOp | WeightOp | ConstantOp | PlaceholderOp):
                    continue
                yield op
                if op.regions and op.name.startswith(("glow_fn.", "scf.", "func.")):
                    yield from _drawn(op)


def _read(op: Operation) -> list[SSAValue]:
    return [origin(v) for v in op.read()] if isinstance(op, InstrOp) else list(op.operands)


def _source(
    value: SSAValue, written: dict[SSAValue, Operation], drawn: set[Operation], numbers: Numbers
) -> int | None:
    """The operation that made what is read: of a buffer, the one that wrote it last."""
    op = written.get(value, value.owner)
    return numbers.of(op) if isinstance(op, Operation) and op in drawn else None


def _name(op: Operation) -> tuple[tuple[str, ...], str]:
    """The scopes around an operation, by the name of the node that it comes from, and its own name."""
    symbol = getattr(op.get_attr_or_prop("symbol") or op.get_attr_or_prop("sym_name"), "string_value", None)
    if symbol is not None:
        return (), f"@{symbol()}"
    file = any(isinstance(part, FileLineColLoc) for part in parts_of(op.location))
    known = () if file else names(op.location)
    if not known:
        hint = op.results[0].name_hint if op.results else None
        return (), hint or ""
    parts = [part for part in known[0].split("/") if part]
    name = parts.pop() if parts else known[0]
    return tuple(parts), name + (f" +{len(known) - 1}" if len(known) > 1 else "")
