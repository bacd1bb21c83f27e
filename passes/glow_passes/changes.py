"""Whether a pass changed a module: what it consists of before and after, compared by identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation


class Snapshot:
    """What a module consists of at one moment: operations in order, operands, types, properties.

    Attributes of xDSL do not change, so that the same objects in the same places are the same program.
    """

    def __init__(self, module: ModuleOp) -> None:
        self.parts = [part for op in module.walk() for part in _parts(op)]

    def same(self, other: Snapshot) -> bool:
        """Whether two moments show one program."""
        return len(self.parts) == len(other.parts) and all(map(_is, self.parts, other.parts))


def _is(a: Any, b: Any) -> bool:
    return a is b


def _parts(op: Operation) -> Iterator[Any]:
    yield op
    yield op.parent
    yield from op.operands
    for result in op.results:
        yield result.type
    for table in (op.properties, op.attributes):
        for name, value in table.items():
            yield name
            yield value
    for region in op.regions:
        for block in region.blocks:
            yield block
            for argument in block.args:
                yield argument.type
