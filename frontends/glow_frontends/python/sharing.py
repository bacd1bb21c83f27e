"""In-place changes that other names would see in Python.

Values of a program do not change: `y[0] = 5` is a new value for the name `y`. Python changes the array, and
with it what others see of it: views (`r = y[i]`, `for r in y`), second names, tuples and lists that hold it.
Where one of these names is read after the change, `Apart` refuses the program, unless types tell that there
is no array: `r = x[i]; r += 1` changes nothing of a vector x.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set
from types import FunctionType
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from glow_dialects.fn.dialect import ConstantOp, TupleOp
from glow_dialects.fn.primitives.changes import Apart
from glow_frontends.python.argument_writes import caller
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.shared_names import (
    BESIDE,
    HOLDS,
    KEEPS,
    KEPT,
    NOBODY,
    NOTHING,
    SAME,
    Shares,
    bound,
    followed,
    joined,
    roots,
    shared,
    shared_parameters,
    stored,
    walked,
)
from glow_frontends.python.statement_names import read_names

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Env
    from glow_frontends.python.statements import Statements

#: What the items of a loop are taken of, as a name.
_WALKED = "%walked"
#: A list that holds the other, or items of it: its own items change without the other.
_ITEMS = {HOLDS, BESIDE, KEEPS}


class Sharing:
    """The names of one function that may share memory, as far as the function is compiled."""

    def __init__(self, compiler: Statements) -> None:
        self.c = compiler
        self.shares: Shares = NOTHING
        #: Names that are checked in a branch or loop, whose values come out of it.
        self.carried: dict[str, None] = {}
        self._given: dict[ast.AST, set[int]] = {}

    def _gives(self, name: str, env: Env) -> set[int]:
        text = self._text(name, env)
        if text is not None and text not in self._given:
            self._given[text] = set()
            self._given[text] = shared_parameters(text)
        return set() if text is None else self._given[text]

    def _text(self, name: str, env: Env) -> ast.FunctionDef | ast.Lambda | None:
        from glow_frontends.python.errors import FunctionError
        from glow_frontends.python.source import read

        value: object = env[name] if name in env else self.c.source.names.get(name)
        if isinstance(value, SSAValue):
            made = self.c.closures.get(value)
            return None if made is None else made.node
        value = value.value if isinstance(value, Static) else value
        value = getattr(value, "glow_function", value)
        if not isinstance(value, FunctionType):
            return None
        try:
            return read(value).node
        except FunctionError:
            return None  # told where it is compiled

    # --- following the statements -----------------------------------------------------------------
    def assigned(self, target: ast.expr, value: ast.expr, env: Env) -> None:
        """After an assignment."""
        self.shares = bound(self.shares, target, value, lambda n: self._gives(n, env))

    def walked(self, node: ast.For, env: Env) -> None:
        """In the body of a loop over items."""
        self.shares = walked(self.shares, node.target, node.iter, lambda n: self._gives(n, env))

    def around(self, node: ast.If | ast.For | ast.While, live: Set[str], env: Env) -> None:
        """Before a branch or loop: what changes in it is checked for names that are read after it."""
        hits, after = followed([node], self.shares, lambda n: self._gives(n, env))
        for name, other, how, below in sorted(hits):
            self._check(name, env.get(name), other, how, below, live, env)
            if name not in env and other in env:
                self.carried[other] = None
            if other in self.c.callers and other[1:] in self.c.written:
                self.carried[other[1:]] = None
        if not isinstance(node, ast.If):
            self.shares = joined(self.shares, after)

    def changing(self, name: str, live: Set[str], env: Env, below: bool = False) -> None:
        """Before the value of a name is changed in place, below its items perhaps."""
        for other, how in self.shares.get(name, NOBODY).items():
            self._check(name, env.get(name), other, how, below, live, env)

    def belongs(self, name: str, foreign: Set[str], below: bool) -> str | None:
        """A name from around that sees what an assignment to an item of a name changes."""
        of = self.shares.get(name, NOBODY).items()
        return next((o for o, how in of if o in foreign and (below or how not in _ITEMS)), None)

    def iterated(self, node: ast.For, walked_over: ast.expr, value: SSAValue, env: Env) -> SSAValue:
        """What a loop gets items of, computed before it: refused where the body changes such an array."""
        lent = lambda n: self._gives(n, env)  # noqa: E731
        of = roots(walked_over, lent)
        hits, _ = followed(node.body, shared(self.shares, _WALKED, of), lent)
        for name in sorted({n for n, other, *_ in hits if other == _WALKED}):
            changed = env.get(name)
            if isinstance(changed, SSAValue):
                text = (
                    f"the loop over {ast.unparse(walked_over)} changes '{name}', which may share its memory"
                )
                text = f"{text}; write {name}[i] with a position i, or loop over a copy: .copy()"
                made = self._apart(value, changed, text, False)
                value = made if isinstance(made, SSAValue) else value
        return value

    def seen_by(self, name: str, callers: Set[str]) -> list[str]:
        """What the caller gave that `x += v` changes, of a name that is a view of it."""
        of = self.shares.get(name, NOBODY).items()
        own = (caller(name), SAME)
        return [o for o, how in of if o in callers and how not in _ITEMS and (o, how) != own]

    def watched(self, seen: Sequence[str], old: SSAValue, name: str, env: Env) -> None:
        """Refuse `x += v` of a view of what the caller gets back, unless it is of a number."""
        for other in seen:
            key = other if other in env else other[1:]
            if other[1:] in self.c.written and key in env:
                text = (
                    f"'{name}' belongs to the caller, where it would not change; write {name} = {name} + .."
                )
                env[key] = self._apart(env[key], old, text, True)

    def owned(self, new: Value, old: Value, name: str, owner: str) -> Value:
        """The value after `x += v` of a name from around, which must be no array."""
        text = f"'{name}' belongs to {owner}, where it would not change; write {name} = {name} + .."
        return self._apart(new, old, text, True) if isinstance(old, SSAValue) else new

    def repeated(self, name: str, env: Env) -> bool:
        """Whether a list holds one value twice: `[row, row]`, `[[0] * n] * m`."""
        value = env.get(name)
        return isinstance(value, SSAValue) and _twice(value)

    def swapped(self, node: ast.Assign, value: Value, env: Env) -> Value:
        """The values of `a[i], a[j] = a[j], a[i]`: views of what the first assignment changes."""
        places = [stored(t) for t in node.targets if isinstance(t, ast.Tuple | ast.List)]
        names = {n for some in places if len(some) > 1 for t in some for n in roots(t, lambda _: set())}
        if not names or isinstance(value, Static) or not isinstance(value.owner, TupleOp):
            return value
        if not isinstance(node.value, ast.Tuple | ast.List):
            return value
        parts: list[Value] = list(value.owner.operands)
        for index, (part, item) in enumerate(zip(parts, node.value.elts, strict=False)):
            for name in names & roots(item, lambda _: set()).keys() if index else ():
                old = env.get(name)
                if isinstance(old, SSAValue):
                    parts[index] = self._apart(part, old, _message(ast.unparse(item), name), False)
        return self.c.tuple(*[v for v in parts if isinstance(v, SSAValue)])

    # --- checks -----------------------------------------------------------------------------------
    def _check(
        self, name: str, old: Value | None, other: str, how: str, below: bool, live: Set[str], env: Env
    ) -> None:
        if not isinstance(old, SSAValue) or other == name or other not in env:
            return
        if other in self._read(live, env):
            whole = below or how not in _ITEMS
            env[other] = self._apart(env[other], old, _message(other, name), whole, how)

    def _read(self, live: Set[str], env: Env) -> set[str]:
        """Names that are read later, by functions that are called then too."""
        names, pending = set(live), list(live)
        while pending:
            value = env.get(pending.pop())
            made = self.c.closures.get(value) if isinstance(value, SSAValue) else None
            more = set[str]() if made is None else read_names(made.node) - names
            names |= more
            pending += more
        return names

    def _apart(self, value: Value, changed: SSAValue, message: str, whole: bool, how: str = SAME) -> Value:
        """A value that is read after another was changed in place; `how` they may share memory."""
        c = self.c
        if isinstance(value, Static) or value in c.known:
            return value
        if value is changed or not isinstance(value.owner, TupleOp):
            options: dict[str, Attribute] = {
                "message": StringAttr(message),
                "whole": BoolAttr.from_bool(whole),
            }
            if how in (KEEPS, KEPT):
                options["list"] = IntegerAttr(int(how == KEEPS), i64)
            checked = c.prim(Apart, value, changed, **options)
        else:
            parts = [self._apart(v, changed, message, whole, how) for v in value.owner.operands]
            return c.again(value, [v for v in parts if isinstance(v, SSAValue)])
        if value in c.fields:
            c.fields[checked] = c.fields[value]
        return checked


def _message(other: str, name: str) -> str:
    what = f"'{other}' may share memory with '{name}', which is changed in place before it is read"
    return f"{what}; take a copy: {name}.copy()"


def _twice(value: SSAValue) -> bool:
    if not isinstance(value.owner, TupleOp):
        return False
    items = [v for v in value.owner.operands if not isinstance(v.owner, ConstantOp)]
    return len(set(items)) < len(items) or any(map(_twice, items))
