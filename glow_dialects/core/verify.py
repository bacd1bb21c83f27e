"""Verification of a whole module or of its changed parts; an error knows its operation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.ir import Operation
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException


def blame(error: VerifyException, op: Operation) -> None:
    """Let an error be about `op`, unless it is about one inside it already."""
    if culprit(error) is None:
        error.operation = op  # pyright: ignore[reportAttributeAccessIssue]


def culprit(error: Exception) -> Operation | None:
    """The operation that an error is about, where it knows."""
    return getattr(error, "operation", None)


def verify(module: Operation) -> None:
    """Raise the VerifyException of the first operation that is not valid, the inner before the outer."""
    verify_each(_inside_first(module))


def verify_each(operations: Iterable[Operation]) -> None:
    """Raise the VerifyException of the first of these operations that is not valid by itself."""
    for op in operations:
        try:
            _check_ends(op)
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            blame(error, _again(error, op) or op)
            raise


def _inside_first(op: Operation) -> Iterable[Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _inside_first(inner)
    yield op


def _check_ends(op: Operation) -> None:
    """Blocks have a last operation, where the operation around them asks for one."""
    for region in op.regions:
        if region.first_block is not region.last_block or _open_end(type(op)):
            continue
        if (block := region.first_block) is not None and block.first_op is None:
            raise VerifyException(f"{op.name}: its block is empty, and must end with a terminator")


@cache
def _open_end(kind: type[Operation]) -> bool:
    """Whether the blocks of such operations need no terminator."""
    return kind.has_trait(NoTerminator)


def _again(error: VerifyException, op: Operation) -> Operation | None:
    """The second operation of a symbol, where an error is about that, of a table."""
    if "Redefinition of symbol" not in str(error):
        return None
    met: set[object] = set()
    for inner in op.regions[0].block.ops:
        name = inner.get_attr_or_prop("sym_name")
        if name is not None and name in met:
            return inner
        met.add(name)
    return None
