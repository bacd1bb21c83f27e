"""The parameters that a function changes in place, found in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glow_frontends.python.shared_names import (
    BESIDE,
    HOLDS,
    KEEPS,
    NOBODY,
    NOTHING,
    SAME,
    Shares,
    base,
    bound,
    joined,
    shared,
    stored,
    walked,
)
from glow_frontends.python.source import Source
from glow_frontends.python.statement_names import changed_list, targets

#: What a parameter stands for: the caller's object, another one, or either.
OWN, FRESH, EITHER = "own", "fresh", "either"


@dataclass
class Writes:
    """How a function changes an argument.

    `items` are the levels of what gets other items: 0 is the argument itself, 1 an item of it. `inside` are
    those of arrays that `+=` changes in place; what is no array gets a new item one level above. `unclear`
    says where it is not seen whether the caller's object changes. Of arrays of `views` axes or more, `+=` may
    change a part that has a name; types tell.
    """

    items: set[int] = field(default_factory=set)
    inside: set[int] = field(default_factory=set)
    unclear: str = ""
    views: int = 0

    @property
    def last(self) -> int:
        """The lowest level that changes; -1 for none."""
        return max(self.items | self.inside, default=-1)


def caller(name: str) -> str:
    """The name of what the caller gave for a parameter."""
    return f"%{name}"


def given(names: Sequence[str]) -> Shares:
    """The relation where each parameter is what the caller gave."""
    shares = NOTHING
    for name in names:
        shares = shared(shares, name, {caller(name): SAME})
    return shares


def argument_writes(source: Source, names: Sequence[str]) -> dict[str, Writes]:
    """The parameters that a function changes in place."""
    node = source.node
    if isinstance(node, ast.Lambda):
        return {}
    walk = _Walk(source, names)
    walk.run(node.body, dict.fromkeys(names, OWN), given(names), True)
    for name in walk.rebound & walk.found.keys():
        walk.unclear(name, walk.places[name])
    return walk.found


States = Mapping[str, str]


class _Walk:
    """Follows the statements of a function."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self.source, self.names = source, names
        self.found: dict[str, Writes] = {}
        #: Parameters that get another value in a branch or loop, and where.
        self.rebound: set[str] = set()
        self.places: dict[str, ast.AST] = {}
        #: Names of rows or items, which are numbers where what they are of has one axis.
        self.rows: set[str] = set()

    def unclear(self, name: str, node: ast.AST) -> None:
        """Note that it is not seen whether the argument changes."""
        writes = self.found.setdefault(name, Writes())
        writes.unclear = writes.unclear or self.source.where(node)

    def run(
        self, statements: Sequence[ast.stmt], states: States, shares: Shares, top: bool = False
    ) -> tuple[States, Shares]:
        """What names stand for after some statements."""
        for s in statements:
            self._changes(s, states, shares)
            match s:
                case ast.Assign(targets=places, value=value):
                    for target in places:
                        self._rows(target, _plain_item(value))
                        states = self._bound(target, s, states, top)
                        shares = bound(shares, target, value, _nothing)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    states = self._bound(target, s, states, top)
                    shares = bound(shares, target, value, _nothing)
                case ast.If():
                    left, a = self.run(s.body, states, shares)
                    right, b = self.run(s.orelse, states, shares)
                    states, shares = _either(left, right), joined(a, b)
                case ast.For() | ast.While():
                    states, shares = self._loop(s, states, shares)
                case _:
                    pass
        return states, shares

    def _loop(self, s: ast.For | ast.While, states: States, shares: Shares) -> tuple[States, Shares]:
        for _ in range(2):  # what the first turn leaves, the second one meets
            inner = shares
            turn = states
            if isinstance(s, ast.For):
                turn = self._bound(s.target, s, states, False)
                self._rows(s.target, _walks_items(s.iter))
                inner = walked(shares, s.target, s.iter, _nothing)
            after, left = self.run(s.body, turn, inner)
            states, shares = _either(states, after), joined(shares, left)
        after, left = self.run(s.orelse, states, shares)
        return _either(states, after), joined(shares, left)

    def _rows(self, target: ast.expr, item: bool) -> None:
        """After names were given an item, or something else."""
        (self.rows.update if item else self.rows.difference_update)(targets(target))

    def _bound(self, target: ast.expr, node: ast.stmt, states: States, top: bool) -> States:
        """After names got other values."""
        if isinstance(target, ast.Subscript | ast.Attribute):
            return states
        if isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                states = self._bound(item, node, states, top)
            return states
        names = [n for n in targets(target) if n in states]
        for name in names:
            self.places.setdefault(name, node)
            if not top:
                self.rebound.add(name)
        return {**states, **dict.fromkeys(names, FRESH)}

    def _changes(self, s: ast.stmt, states: States, shares: Shares) -> None:
        for name, level, inside in _changed(s):
            state = states.get(name, FRESH)
            if state == OWN:
                writes = self.found.setdefault(name, Writes())
                (writes.inside if inside else writes.items).add(level)
                continue
            if state == EITHER:
                self.unclear(name, s)
            for other, how in shares.get(name, NOBODY).items():
                if not other.startswith("%") or (not level and how in (HOLDS, BESIDE, KEEPS)):
                    continue
                if level or not inside:
                    self.unclear(other[1:], s)
                    continue
                writes = self.found.setdefault(other[1:], Writes())  # of a number perhaps: types tell
                writes.views = min(writes.views or 2, 2 if name in self.rows else 1)


def _changed(s: ast.stmt) -> Iterator[tuple[str, int, bool]]:
    """The names that one statement changes in place, the level below them, and whether by `+=`."""
    match s:
        case ast.Assign(targets=places) | ast.Delete(targets=places):
            found, inside = [n for t in places for n in stored(t)], False
        case ast.AugAssign(target=target):
            found, inside = [target], True
        case _:
            found, inside = list[ast.expr](), False
    for target in found:
        name = base(target)
        if name is not None:
            yield name, _depth(target) - (not inside), inside
    if not isinstance(s, ast.If | ast.For | ast.While | ast.FunctionDef):
        for node in ast.walk(s):
            if (name := changed_list(node)) is not None:
                yield name, 0, False


def _depth(target: ast.expr) -> int:
    depth = 0
    while isinstance(target, ast.Subscript | ast.Attribute):
        target, depth = target.value, depth + 1
    return depth


def _walks_items(iterable: ast.expr) -> bool:
    """Whether a loop gets the items of arrays: numbers, where they have one axis."""
    if isinstance(iterable, ast.Call):
        walk = isinstance(iterable.func, ast.Name) and iterable.func.id in ("zip", "enumerate", "reversed")
        return walk and all(map(_walks_items, iterable.args))
    return isinstance(iterable, ast.Name | ast.Subscript | ast.Constant)


def _plain_item(value: ast.expr) -> bool:
    """Whether an expression is an item of a name by its numbers, no slice."""
    parts = (ast.Slice, ast.Starred)
    return (
        isinstance(value, ast.Subscript)
        and isinstance(value.value, ast.Name)
        and not any(isinstance(n, parts) or _widens(n) for n in ast.walk(value.slice))
    )


def _widens(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis)


def _either(a: States, b: States) -> States:
    return a if a is b else {n: a[n] if a[n] == b[n] else EITHER for n in a}


def _nothing(_: str) -> set[int]:
    return set()
