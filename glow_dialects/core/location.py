"""Source locations of operations, as readable names: ONNX nodes, lines of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, OpResult

_L = TypeVar("_L", bound=LocationAttr)

UNKNOWN = UNKNOWN_LOC
#: Attributes that profiles put on nodes: ranges, losses and channels of the values that these compute.
NOTES = ("range", "loss", "channels")
_NONE = NoneAttr()


def node_location(name: str, caller: LocationAttr = UNKNOWN) -> LocationAttr:
    """That of a node of a model, in a function or a body that the node `caller` stands for."""
    own = _made(NameLoc, desc=StringAttr(name), location=_NONE)
    return own if is_unknown(caller) else _made(CallSiteLoc, callee=own, caller=caller)


def file_location(file: str, line: int, column: int = 0) -> LocationAttr:
    """That of a place in a file; lines and columns count from 1."""
    return _made(FileLineColLoc, filename=StringAttr(file), line=IntAttr(line), column=IntAttr(column))


def _made(kind: type[_L], **parameters: Attribute) -> _L:
    """A location that is not verified, which takes up to fifty times as long as to make it."""
    made = object.__new__(kind)
    for name, value in parameters.items():
        object.__setattr__(made, name, value)
    return made


def is_unknown(location: LocationAttr) -> bool:
    """Whether nothing is known of where an operation comes from."""
    return location is UNKNOWN or location == UNKNOWN


def fused(locations: Iterable[LocationAttr]) -> LocationAttr:
    """That of an operation which does the work of several: each place once, in order."""
    places = {id(place): place for one in locations for place in _places(one)}
    if len(places) < 2:
        return next(iter(places.values()), UNKNOWN)
    return _made(FusedLoc, locations=ArrayAttr(places.values()), metadata=_NONE)


def _places(location: LocationAttr) -> tuple[LocationAttr, ...]:
    if isinstance(location, FusedLoc):
        return location.locations.data  # pyright: ignore
    return () if is_unknown(location) else (location,)


def parts_of(location: Attribute) -> Iterator[Attribute]:
    """A location and all that it is made of."""
    yield location
    match location:
        case FusedLoc():
            inside: Iterable[Attribute] = location.locations.data  # pyright: ignore
        case CallSiteLoc():
            inside = (location.callee, location.caller)
        case NameLoc():
            inside = (location.location,)
        case _:
            inside = ()
    for part in inside:
        yield from parts_of(part)


def names(location: Attribute) -> tuple[str, ...]:
    """What to call the places of a location; none where nothing is known."""
    return tuple(dict.fromkeys(_names(location)))


def _names(location: Attribute) -> Iterator[str]:
    match location:
        case FusedLoc():
            for part in location.locations.data:  # pyright: ignore
                yield from _names(part)
        case NameLoc():
            yield location.desc.data
        case FileLineColLoc():
            column = location.column.data
            yield f"{location.filename.data}:{location.line.data}" + (f":{column}" if column else "")
        case CallSiteLoc():
            for caller in _names(location.caller) or ("",):
                yield from (f"{caller}/{name}" for name in _names(location.callee))
        case _:
            return


def shortened(every: Sequence[str], most: int) -> str:
    """Names in one line: of more than `most` the first ones and the last."""
    if len(every) > most:
        every = (*every[: most - 1], "...", every[-1])
    return " + ".join(every)


def hand_on(root: Operation, made: Sequence[Operation]) -> None:
    """Give operations that replace `root`, and those that only it read, the places that they come from.

    An operation made anew beside others keeps the place of its kind; what is gone is in all of them.
    """
    old = _replaced(root)
    kinds = {type(op) for op in made}
    for op in made:
        if op.location is UNKNOWN:
            kind = type(op)
            stand_for(op, [o for o in old if type(o) is kind or type(o) not in kinds] or old)


def stand_for(op: Operation, others: Sequence[Operation]) -> None:
    """Give an operation the places of others whose work it does, and what users wrote on these.

    Attributes of one of them are kept, equal ones of several, too; of those that differ there is an array.
    What profiles note (`NOTES`) is about one value, and goes with it.
    """
    op.location = fused(o.location for o in others)
    for name, value in _written(others).items():
        op.attributes.setdefault(name, value)


def _written(others: Sequence[Operation]) -> dict[str, Attribute]:
    found: dict[str, dict[Attribute, None]] = {}
    for other in others:
        for name, value in other.attributes.items():
            if name not in NOTES:
                parts: Iterable[Attribute] = value.data if isinstance(value, ArrayAttr) else (value,)  # pyright: ignore
                found.setdefault(name, {}).update(dict.fromkeys(parts))
    whole = {name: next(o.attributes[name] for o in others if name in o.attributes) for name in found}
    same = {name for name in found if all(o.attributes.get(name, whole[name]) == whole[name] for o in others)}
    return {name: whole[name] if name in same else ArrayAttr(found[name]) for name in found}


def _replaced(root: Operation) -> list[Operation]:
    """An operation, and those that only it reads, in front of it."""
    found = {root: None}
    stack = [root]
    while stack:
        for value in stack.pop().operands:
            if not isinstance(value, OpResult) or value.op in found or not value.op.operands:
                continue
            if all(use.operation in found for result in value.op.results for use in result.uses):
                found[value.op] = None
                stack.append(value.op)
    return list(reversed(found))
