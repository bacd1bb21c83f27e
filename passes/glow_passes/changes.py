"""The operations that a pass changed, compared by identity, and their verification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import is_
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation

from glow_dialects.core.verify import verify_each


class Snapshot:
    """What a module consists of at one moment: operations in order, operands, types, properties.

    `before` is an earlier moment, with which it is compared.
    Attributes of xDSL do not change, so that the same objects in the same places are the same program.
    """

    def __init__(self, module: ModuleOp, before: Snapshot | None = None) -> None:
        self.module = module
        self.parts: dict[Operation, tuple[Any, ...]] = {}
        self._before = {} if before is None else before.parts
        #: Operations that are new, or have other operands, types or properties than before.
        self._changed: list[Operation] = []
        self._add(module)

    def _add(self, op: Operation) -> None:
        """Look at an operation and those in it."""
        parts, old = _parts(op), self._before.get(op)
        if old is not None and _same(parts, old):
            self.parts[op] = old
        else:
            self.parts[op] = parts
            self._changed.append(op)
        for region in op.regions:
            for block in region.blocks:
                inner = block.first_op
                while inner is not None:
                    self._add(inner)
                    inner = inner.next_op

    def changes(self) -> bool:
        """Whether this is another program than before."""
        return (
            bool(self._changed)
            or len(self.parts) != len(self._before)
            or not all(map(is_, self.parts, self._before))
        )

    def verify(self) -> None:
        """Raise a VerifyException where the module, valid before, is not valid now.

        Looked at are operations that changed, those that read them, by value or symbol, and those around.
        """
        verify_each(op for op in self._affected() if op in self.parts)

    def _affected(self) -> Iterable[Operation]:
        changed, before = self._changed, self._before
        gone = [op for op in before if op not in self.parts]
        kept = (op for op in before if op in self.parts)
        moved = not all(map(is_, kept, (op for op in self.parts if op in before)))
        around = dict.fromkeys(chain(_around(changed), _around_blocks(before[op][0] for op in gone)))
        if moved:
            around |= dict.fromkeys(op for op in self.parts if op.regions)
        top = self.module.body.block
        if not any(self.parts[op][0] is top for op in changed) and not any(
            before[op][0] is top for op in gone
        ):
            around.pop(self.module, None)  # which only says that its symbols are different ones
        names = {name for op in chain(changed, gone, around) if (name := _symbol(op)) is not None}
        yield from dict.fromkeys(
            chain(
                changed,
                _readers(op for op in changed if op in before),  # of new ones they are new themselves
                (op for op, parts in self.parts.items() if names and _mentions(parts, names)),
                (block.last_op for op in around for r in op.regions for block in r.blocks if block.last_op),
                sorted(around, key=_depth, reverse=True),
            )
        )


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(map(is_, a, b))


def _parts(op: Operation) -> tuple[Any, ...]:
    parts: list[Any] = [op.parent, *op._operands]  # the tuple itself: views of it cost more than the rest
    for result in op.results:
        parts.append(result.type)
    for table in (op.properties, op.attributes):
        if table:
            parts += table
            parts += table.values()
    for region in op.regions:
        for block in region.blocks:
            parts.append(block)
            parts += (argument.type for argument in block.args)
    return tuple(parts)


def _around(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The operations around these."""
    return _around_blocks(op.parent for op in operations)


def _around_blocks(blocks: Iterable[Any]) -> Iterator[Operation]:
    for block in dict.fromkeys(blocks):
        op = None if block is None else block.parent_op()
        while op is not None:
            yield op
            op = op.parent_op()


def _readers(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The operations that read what these compute."""
    for op in operations:
        blocks = (block.args for region in op.regions for block in region.blocks)
        for value in chain(op.results, *blocks):
            yield from (use.operation for use in value.uses)


def _symbol(op: Operation) -> StringAttr | None:
    name = op.properties.get("sym_name")
    return name if isinstance(name, StringAttr) else None


def _mentions(parts: tuple[Any, ...], names: set[StringAttr]) -> bool:
    return any(type(part) is SymbolRefAttr and part.root_reference in names for part in parts)


def _depth(op: Operation) -> int:
    depth = 0
    while (parent := op.parent_op()) is not None:
        op, depth = parent, depth + 1
    return depth
