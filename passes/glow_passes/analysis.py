"""Analyses: what passes ask of a function, kept while they say that it still holds.

`analysis(Liveness, function)` computes it, or gives the one that a runner of passes has kept. After a pass
that changed the module a runner forgets all but those in the pass's `PRESERVES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.location import names, shortened
from glow_dialects.core.types import bytes_of, shape_of
from glow_dialects.instr.memory import AllocOp, DeallocOp, InstrFuncOp, ViewOp, WeightOp, origin
from glow_dialects.ops.module import FuncOp, GetOp

Function = FuncOp | InstrFuncOp
_A = TypeVar("_A", bound="Analysis")


class Analysis(ABC):
    """Something that is true of a function as it is now."""

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, function: Function) -> None: ...

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """It, to be read."""


class Kept:
    """The analyses that a runner keeps, by kind and function."""

    def __init__(self) -> None:
        self._known: dict[tuple[type[Analysis], Operation], Analysis] = {}

    def of(self, kind: type[_A], function: Function) -> _A:
        """The analysis, computed at most once."""
        key = kind, function
        if key not in self._known:
            self._known[key] = kind(function)
        return cast(_A, self._known[key])

    def invalidate(self, keep: Collection[type[Analysis]] = ()) -> None:
        """Forget all but those of some kinds."""
        self._known = {key: value for key, value in self._known.items() if key[0] in keep}


_kept: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def keeping() -> Generator[Kept]:
    """Keep analyses within; whoever runs passes there invalidates them."""
    kept = Kept()
    token = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(token)


def analysis(kind: type[_A], function: Function) -> _A:
    """An analysis of a function: the one that the runner of passes keeps, or else a new one."""
    kept = _kept.get()
    return kind(function) if kept is None else kept.of(kind, function)


class Readers(Analysis):
    """Who reads each value: of a buffer, the instructions that read it, through views, too."""

    name = "readers"

    def __init__(self, function: Function) -> None:
        self.readers: dict[SSAValue, list[Operation]] = {}
        for op in function.walk():
            for result in op.results:
                if not isinstance(op, ViewOp):
                    self.readers.setdefault(result, [])
            if isinstance(op, ViewOp | DeallocOp):
                continue
            read = [origin(v) for v in op.read()] if isinstance(op, InstrOp) else op.operands
            for value in dict.fromkeys(read):
                self.readers.setdefault(value, []).append(op)

    def lines(self) -> Iterator[str]:
        for value, readers in self.readers.items():
            yield f"{_named(value)}: {', '.join(map(_shown, readers)) or 'nobody'}"


class Dependencies(Analysis):
    """What each operation waits for: makers of values; to write a buffer, its readers and writers before."""

    name = "dependencies"

    def __init__(self, function: Function) -> None:
        self.before: dict[Operation, dict[Operation, str]] = {}
        writer: dict[SSAValue, Operation] = {}
        readers: dict[SSAValue, list[Operation]] = {}
        for op in function.walk():
            if isinstance(op, FuncOp | InstrFuncOp | AllocOp | ViewOp | WeightOp):
                continue
            found = self.before[op] = dict[Operation, str]()
            if not isinstance(op, InstrOp):
                found |= {v.owner: "value" for v in op.operands if isinstance(v.owner, Operation)}
                continue
            read, written = [origin(v) for v in op.read()], [origin(v) for v in op.written()]
            found |= {writer[v]: "read after write" for v in read if v in writer}
            for value in written:
                found |= {r: "write after read" for r in readers.pop(value, ()) if r is not op}
                if value in writer:
                    found.setdefault(writer[value], "write after write")
                writer[value] = op
            for value in read:
                readers.setdefault(value, []).append(op)

    def lines(self) -> Iterator[str]:
        numbers = {op: i for i, op in enumerate(self.before)}
        for op, before in self.before.items():
            waits = ", ".join(f"{numbers[o]} ({kind})" for o, kind in before.items() if o in numbers)
            yield f"{numbers[op]}: {_shown(op)}: after {waits or 'nothing'}"


class Liveness(Analysis):
    """From which to which operation each value or buffer lives, and the bytes alive at each."""

    name = "liveness"

    def __init__(self, function: Function) -> None:
        self.operations = list(function.walk())
        if isinstance(function, InstrFuncOp):
            self.lives = self._buffers()
        else:
            self.lives = self._values()

    def _buffers(self) -> dict[SSAValue, tuple[int, int, Any]]:
        starts: dict[SSAValue, int] = {}
        ends: dict[SSAValue, int] = {}
        for step, op in enumerate(self.operations):
            if isinstance(op, AllocOp):
                starts[op.result] = step
            elif isinstance(op, DeallocOp):
                ends[op.buffer] = step
        last = len(self.operations)
        return {v: (start, ends.get(v, last), bytes_of(v.type)) for v, start in starts.items()}

    def _values(self) -> dict[SSAValue, tuple[int, int, Any]]:
        """Values of nodes; what placeholders and constants hold lives all the time."""
        lives: dict[SSAValue, tuple[int, int, Any]] = {}
        for step, op in enumerate(self.operations):
            for value in op.operands:
                if value in lives:
                    lives[value] = (lives[value][0], step, lives[value][2])
            if not isinstance(op, GetOp):
                tensors = [r for r in op.results if isinstance(r.type, TensorType)]
                lives |= {r: (step, step, bytes_of(r.type)) for r in tensors}
        return lives

    def most(self) -> tuple[int, int]:
        """The most bytes that are alive at once, and the number of the operation where."""
        change = [0] * (len(self.operations) + 2)
        for first, last, size in self.lives.values():
            if not is_open([size]):
                change[first] += size
                change[last + 1] -= size
        total, best, at = 0, 0, 0
        for step, difference in enumerate(change):
            total += difference
            if total > best:
                best, at = total, step
        return best, at

    def lines(self) -> Iterator[str]:
        for value, (first, last, size) in self.lives.items():
            yield f"{_named(value)}: {first} to {last}, {size} bytes"
        most, at = self.most()
        where = f" at {at}, {_shown(self.operations[at])}" if most else ""
        yield f"most alive: {most} bytes{where}"


class Cost(Analysis):
    """The arithmetic operations of nodes or instructions, about, and the bytes that they read and write."""

    name = "cost"

    def __init__(self, function: Function) -> None:
        self.costs: dict[Operation, tuple[Any, Any]] = {}
        for op in function.walk():
            if isinstance(op, GraphOp | InstrOp) and not isinstance(op, DeallocOp):
                values = [*op.operands, *op.results]
                moved = sum(bytes_of(v.type) for v in values if isinstance(v.type, TensorType | MemRefType))
                self.costs[op] = (_work(op), moved)

    def lines(self) -> Iterator[str]:
        for op, (work, moved) in self.costs.items():
            yield f"{_shown(op)}: {work} operations, {moved} bytes"
        work, moved = (sum(c[i] for c in self.costs.values()) for i in (0, 1))
        yield f"all: {work} operations, {moved} bytes"


ANALYSES: dict[str, type[Analysis]] = {kind.name: kind for kind in (Readers, Dependencies, Liveness, Cost)}


def _work(op: GraphOp | InstrOp) -> Any:
    """The arithmetic of a node; of an instruction, that of the node that it stands for."""
    if isinstance(op, GraphOp):
        return op.work()
    if op.GRAPH_OP is None:
        return sum(prod(shape_of(v)) for v in op.written())
    with op.as_node(op.GRAPH_OP) as node:
        return node.work() if isinstance(node, GraphOp) else 0


def _named(value: SSAValue) -> str:
    """A value as messages call it."""
    owner = value.owner
    hint = f"%{value.name_hint}" if value.name_hint else "a value"
    what = f"@{owner.target}" if isinstance(owner, WeightOp) else hint
    return f"{what} of {owner.name}" if isinstance(owner, Operation) else what


def _shown(op: Operation) -> str:
    """An operation by its name and the nodes or lines that it comes from."""
    where = shortened(names(op.location), 3)
    return f"{op.name} ({where})" if where else op.name
