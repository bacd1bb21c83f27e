"""The rewriting driver: local patterns applied from one worklist until none applies.

A pattern is a function of the operation that it starts from. It returns the values that replace the
operation's results, or None where it does not apply. What it builds is inserted before the
operation. A pattern never changes an operation in place, so that every change is seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import Pure

from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import CompileError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import hand_on, names
from glow_dialects.core.time_limit import current
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, tensor_of, typed
from glow_dialects.ops.module import FuncOp, GetOp, bodies
from glow_dialects.ops.splat import SplatOp
from glow_passes.graph.symbols import Symbols, is_quantized, uniform_value
from glow_passes.legality import Legal

Values = SSAValue | Sequence[SSAValue]
Rule = Callable[[Any, "Rewriter"], Values | None]
_O = TypeVar("_O", bound=Operation)

#: A rewrite that is applied this many times the number of operations does not end.
FUEL = 200


@dataclass(frozen=True)
class Pattern:
    """`rule` for operations of the classes `roots` (subclasses included) for which `where` holds."""

    roots: tuple[type[Operation], ...]
    rule: Rule
    where: Callable[[Any], object] | None = None

    def starts_at(self, kind: type[Operation]) -> bool:
        """Whether operations of a class are to be looked at."""
        return issubclass(kind, self.roots) and (self.where is None or bool(self.where(kind)))


class Rewriter(Builder):
    """The questions and constructions of patterns. `r(ReluOp(x))` inserts before the matched operation."""

    root: Operation

    def __init__(self, symbols: Symbols, legal: Legal | None = None) -> None:
        self.symbols = symbols
        self.legal = legal
        self.inserted: list[Operation] = []
        #: Numbers in the order of the block, of the operations that have one.
        self.places: dict[Operation, float] = {}

    def start(self, root: Operation) -> None:
        """Insert before `root` from now on."""
        self.root = root

    def insert(self, op: _O) -> _O:
        """Insert `op` before the matched operation."""
        block = self.root.parent
        assert block is not None
        block.insert_op_before(op, self.root)
        self.inserted.append(op)
        self._place(op)
        return op

    def _place(self, op: Operation) -> None:
        """Number a new operation between its neighbours, where there is a number between theirs."""
        high = self.places.get(self.root)
        if high is None:
            return
        low = high - 2 if op.prev_op is None else self.places.get(op.prev_op, high)
        if low < (middle := (low + high) / 2) < high:
            self.places[op] = middle

    def last(self, ops: Sequence[_O]) -> _O:
        """The operation that stands last in the block, by numbers: xDSL would walk through the block."""
        if any(op not in self.places for op in ops):
            assert self.root.parent is not None
            self.places = {op: float(i) for i, op in enumerate(self.root.parent.ops)}
        return max(ops, key=self.places.__getitem__)

    def array(self, value: SSAValue) -> Array | None:
        """The compile-time contents of a value, None where it is computed at run time."""
        return self.symbols.array(value)

    def may_make(self, op: Operation) -> bool:
        """Whether a node may stand in the graph, which may have been lowered for a backend."""
        return self.legal is None or not isinstance(op, GraphOp) or self.legal(op)

    def uniform(self, value: SSAValue) -> float | None:
        """The one value that all elements have, where that is known."""
        owner = value.owner
        if isinstance(owner, SplatOp):
            return owner.value
        return self.symbols.uniform(value)

    def weight(self, array: Array, hint: str = "folded", kind: Tensor | None = None) -> SSAValue:
        """A compile-time tensor: a splat where all elements are equal, else a module constant."""
        kind = kind or tensor_of(array)
        value = None if is_quantized(kind) else uniform_value(array)
        splat = None if value is None else SplatOp(results=kind, value=value)
        if splat is not None and self.may_make(splat):
            return self.insert(splat).results[0]
        symbol = self.symbols.add(array, kind, hint)
        if not is_quantized(kind):
            self.symbols.uniforms[symbol] = None
        return self.insert(GetOp.of(symbol)).result


def is_used_once(value: SSAValue) -> bool:
    """Whether exactly one operand anywhere is `value`."""
    return value.first_use is not None and value.first_use._next_use is None


def producer(value: SSAValue, kind: type[_O], single: bool = False) -> _O | None:
    """The operation of class `kind` that makes `value`; with `single` only if that is its one use."""
    owner = value.owner
    if not _is_a(type(owner), kind) or (single and not is_used_once(value)):
        return None
    return cast(_O, owner)


@cache
def _is_a(own: type, kind: type) -> bool:
    """issubclass, which asks the classes of operations for long where the answer is no."""
    return issubclass(own, kind)


def is_dead(op: Operation) -> bool:
    """Whether dropping `op` changes nothing."""
    if any(result.first_use is not None for result in op.results) or not op.results:
        return False
    return isinstance(op, GetOp) or (isinstance(op, GraphOp) and op.has_trait(Pure))


class _Table:
    """Patterns by the class of the operation, found once for each class."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self.patterns = patterns
        self.rules: dict[type[Operation], tuple[Rule, ...]] = {}

    def of(self, kind: type[Operation]) -> tuple[Rule, ...]:
        """The rules for one class of operations, in order."""
        rules = self.rules.get(kind)
        if rules is None:
            rules = tuple(p.rule for p in self.patterns if p.starts_at(kind))
            self.rules[kind] = rules
        return rules


@cache
def _table(patterns: tuple[Pattern, ...]) -> _Table:
    return _Table(patterns)


@dataclass(frozen=True)
class Applied:
    """A rewrite that was applied: its rule, what it replaced, and where that comes from."""

    rule: str
    op: str
    origin: tuple[str, ...]


@dataclass
class Budget:
    """Rewrites that were applied; after `most` of them (None: without end) patterns apply no more."""

    most: int | None = None
    applied: list[Applied] = field(default_factory=list[Applied])

    @property
    def spent(self) -> bool:
        """Whether no more rewrites may be applied."""
        return self.most is not None and len(self.applied) >= self.most

    def take(self, op: Operation, rule: Rule) -> None:
        """One more rewrite, which is about to be applied."""
        function: Any = rule.func if isinstance(rule, partial) else rule
        name = f"{function.__module__}.{function.__qualname__}"
        self.applied.append(Applied(name, str(op), names(op.location)))


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def counted(budget: Budget) -> Generator[Budget]:
    """Count the rewrites of the passes that run in the block, and apply no more than the budget allows."""
    before = _budget.set(budget)
    try:
        yield budget
    finally:
        _budget.reset(before)


class _Run:
    """One function, rewritten to a fixpoint."""

    def __init__(self, function: FuncOp, patterns: tuple[Pattern, ...], rewriter: Rewriter) -> None:
        self.table = _table(patterns)
        self.rewriter = rewriter
        ops = list(function.body.block.ops)
        self.stack: list[Operation] = ops[::-1]
        self.waiting: set[Operation] = set(ops)
        self.fuel = FUEL * (len(ops) + 10)
        self.changes = 0
        limit = current()
        #: The time of the compilation, where an optional pass may be cut short.
        self.limit = None if limit is None or limit.running is None else limit

    def push(self, ops: Iterable[Operation]) -> None:
        """Look at `ops` again."""
        for op in ops:
            if op not in self.waiting:
                self.waiting.add(op)
                self.stack.append(op)

    def run(self) -> int:
        """The number of rewrites and removals."""
        rewriter, budget, limit = self.rewriter, _budget.get(), self.limit
        while self.stack:
            op = self.stack.pop()
            self.waiting.discard(op)
            if op.parent is None:
                continue
            if is_dead(op):
                self.erase(op)
                continue
            if (budget is not None and budget.spent) or (limit is not None and limit.ends_rewriting()):
                continue
            rewriter.start(op)
            for rule in self.table.of(type(op)):
                replacement = rule(op, rewriter)
                if (replacement is not None or rewriter.inserted) and self.apply(op, rule, replacement):
                    break
        return self.changes

    def apply(self, op: Operation, rule: Rule, replacement: Values | None) -> bool:
        """Put what a pattern gives in place of an operation."""
        rewriter, budget = self.rewriter, _budget.get()
        inserted = rewriter.inserted
        if replacement is None or not all(map(rewriter.may_make, inserted)):
            if not inserted:
                return False
            rewriter.inserted = []
            for new in reversed(inserted):  # a pattern may find out late that it does not apply
                new.detach()
                new.erase()
            return False
        if budget is not None:
            budget.take(op, rule)
        rewriter.inserted = []
        values = (replacement,) if isinstance(replacement, SSAValue) else replacement
        assert len(values) == len(op.results), f"{rule} on {op.name}"
        users: list[Operation] = []
        for old, new in zip(op.results, values, strict=True):
            assert old.type == new.type, f"{rule} on {op.name}: {old.type} became {new.type}"
            users += [use.operation for use in old.uses]
            old.replace_all_uses_with(new)
        if inserted:
            hand_on(op, inserted)
        self.push(users)
        self.erase(op)
        self.push(reversed(inserted))
        self.fuel -= 1
        if self.fuel < 0:
            raise CompileError(f"internal error: rewriting does not end at {op.name} ({rule})")
        return True

    def erase(self, op: Operation) -> None:
        """Remove an operation without uses and look at what it read and at their other users."""
        self.changes += 1
        operands = set(op.operands)
        op.detach()
        op.erase()
        for value in operands:
            if isinstance(value, OpResult):
                self.push((value.op,))
                if is_used_once(value):
                    self.push(use.operation for use in value.uses)


def rewrite(module: ModuleOp, patterns: tuple[Pattern, ...], legal: Legal | None = None) -> int:
    """Apply `patterns` to every function until nothing changes; the number of changes.

    One that would make a node that is not `legal` is not applied.
    """
    symbols = Symbols(module)
    changes = 0
    for function in bodies(module):
        changes += _Run(function, patterns, Rewriter(symbols, legal)).run()
    if changes or symbols.inserted:
        symbols.sweep()
    return changes


def splat_array(value: float, kind: Tensor) -> Array:
    """A stride-0 array of a tensor type."""
    return np.broadcast_to(np.array(value).astype(dtype_of(kind)), shape_of(kind))


__all__ = [
    "Pattern",
    "Rewriter",
    "is_dead",
    "is_used_once",
    "producer",
    "rewrite",
    "splat_array",
    "typed",
]
