"""Statements as functions: branches and loop headers are functions, jumps are tail calls."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import TupleOp
from glow_dialects.fn.primitives.assignment import SetField
from glow_dialects.fn.primitives.changes import InPlace
from glow_dialects.fn.primitives.records import Raise
from glow_dialects.fn.primitives.tuples import ConcatTuples, ToTuple
from glow_frontends.python.argument_writes import caller
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.expressions import Env, Expressions
from glow_frontends.python.hints import instead_of
from glow_frontends.python.lists import without
from glow_frontends.python.shared_names import deep, joined, stored
from glow_frontends.python.sharing import Sharing
from glow_frontends.python.source import Source
from glow_frontends.python.statement_names import (
    assigned,
    definite,
    exposed,
    exposed_from,
    leaves,
    read_names,
    repeated,
    targets,
)

if TYPE_CHECKING:
    from glow_frontends.python.importer import Importer

Exit = Callable[[Env], SSAValue]


@dataclass(frozen=True)
class Flow:
    """Where control goes: past the end, on break, on continue (each gives the function's value)."""

    past: Exit
    leave: Exit | None = None
    again: Exit | None = None
    #: Names that are read after the end.
    live: frozenset[str] = frozenset()

    def before(self, rest: Sequence[ast.stmt]) -> frozenset[str]:
        """Names that are read from the start of `rest` on, which the end follows."""
        return self.live | exposed(rest)


def _after(flow: Flow, read: Callable[[], list[set[str]]], index: int) -> Set[str]:
    """Names that are read from a statement on, where `read` says which are in the list of all of them."""
    return flow.live | read()[index]


class Statements(Expressions):
    """Compiles the statements of one Python function."""

    #: Names of one value, by each of them.
    twins: dict[str, set[str]]
    #: Names whose value somebody else holds too, and who: items of them are not assigned.
    foreign: dict[str, str]
    #: Whether the function that is compiled next is the one that the user calls.
    main: bool = False
    #: Parameters of the function that is compiled whose last values stand behind its result.
    written: Sequence[str] = ()
    #: What the user gave for parameters of the function that is compiled: those change with views of them.
    callers: frozenset[str] = frozenset()
    #: The names that are read after the statement that is compiled.
    after: Callable[[], Set[str]]

    def __init__(self, source: Source, importer: Importer, name: str) -> None:
        super().__init__(source, importer, name)
        self.twins, self.foreign = {}, {}
        self.sharing = Sharing(self)
        self.after = frozenset

    def run(self, statements: Sequence[ast.stmt], env: Env, flow: Flow) -> SSAValue:
        """The value of the current function from here on; `env` is changed."""
        skip = 0
        read = cache(partial(exposed_from, statements))
        for index, node in enumerate(statements):
            if skip:
                skip -= 1
                continue
            self.at(node)
            rest = statements[index + 1 :]
            self.after = partial(_after, flow, read, index + 1)
            match node:
                case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                    return self._left(node, env, flow)
                case ast.If():
                    self.sharing.around(node, self.after(), env)
                    done = self._if(node, rest, env, flow)
                case ast.While() | ast.For():
                    from glow_frontends.python.loops import Loops

                    if node.orelse and not leaves(node.body, ast.Break):
                        return self.run([_without_else(node), *node.orelse, *rest], env, flow)
                    self.sharing.around(node, self.after() | repeated(node), env)
                    kept = self.sharing.shares
                    done = Loops(self, rest, env, flow).compile(node)
                    self.sharing.shares = kept
                case ast.FunctionDef():
                    later = self._postponed(node, rest, env)
                    if later:
                        moved = [*rest[:later], node, *rest[later:]]
                        return self.run(moved, env, flow)
                    group = self._group(statements[index:])
                    self._define(group, env)
                    skip = len(group) - 1
                    continue
                case _:
                    self._simple(node, env)
                    continue
            if done is not None:
                return done
        return flow.past(env)

    def _left(
        self, node: ast.Return | ast.Raise | ast.Break | ast.Continue, env: Env, flow: Flow
    ) -> SSAValue:
        """The value where nothing behind a statement is reached."""
        match node:
            case ast.Return():
                value = self.constant(None) if node.value is None else self.value(node.value, env)
                return self.returned(value, env)
            case ast.Raise():
                return self._failure(node, env)
            case ast.Break():
                assert flow.leave is not None
                return flow.leave(env)
            case ast.Continue():
                assert flow.again is not None
                return flow.again(env)

    def returned(self, value: SSAValue, env: Env) -> SSAValue:
        """The result of the function for a value that it returns."""
        if not self.written:
            return value
        last = (env.get(caller(n), env[n]) for n in self.written)
        return self.tuple(value, self.tuple(*[self.ssa(v, ast.Constant(None)) for v in last]))

    def _kept(self, target: ast.expr, env: Env) -> None:
        """Before names of parameters get other values: the caller's object keeps what it holds."""
        for name in targets(target) if self.written and not stored(target) else ():
            if name in self.written:
                env.setdefault(caller(name), env[name])

    # --- simple statements ------------------------------------------------------------------------
    def _simple(self, node: ast.stmt, env: Env) -> None:
        match node:
            case ast.Delete():
                for target in node.targets:
                    without(self, target, env)
            case ast.Assign():
                value = self.sharing.swapped(node, self.expression(node.value, env), env)
                for target in node.targets:
                    self._kept(target, env)
                    self.bind(target, value, env)
                    self.sharing.assigned(target, node.value, env)
                self._same_names(node, env)
            case ast.AnnAssign():
                if node.value is not None:
                    self._kept(node.target, env)
                    self.bind(node.target, self.expression(node.value, env), env)
                    self.sharing.assigned(node.target, node.value, env)
            case ast.AugAssign():
                if isinstance(node.target, ast.Subscript | ast.Attribute):
                    old = self.expression(_loaded(node.target), env)
                    self.bind(node.target, self.operated(node, old, self.expression(node.value, env)), env)
                    return
                assert isinstance(node.target, ast.Name)
                self._in_place(node, node.target, env)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" as how), args=[item]
                )
            ):
                self._append(node, name, item, how, env)
            case ast.Expr():
                self.expression(node.value, env)
            case _:
                kind = type(node).__name__
                self.fail(node, f"{kind} statements cannot be compiled", instead_of(node))

    def _in_place(self, node: ast.AugAssign, target: ast.Name, env: Env) -> None:
        """`x += v`: arrays and lists change in place, numbers and tuples are new values."""
        old = self.expression(_loaded(target), env)
        new = self.operated(node, old, self.expression(node.value, env))
        tuples = isinstance(node.value, ast.Tuple) or isinstance(old, Static)
        if isinstance(old, SSAValue) and not (tuples or _whole_number(node)):
            new = self.prim(InPlace, old, self.ssa(new, node))
        if not tuples:
            self.sharing.changing(target.id, self.after(), env)
            seen = self.sharing.seen_by(target.id, self.callers)
            if seen and isinstance(old, SSAValue):
                self.sharing.watched(seen, old, target.id, env)
            owner = self.foreign.get(target.id, "the caller" if seen else None)
            if owner is not None:
                new = self.sharing.owned(new, old, target.id, owner)
        self.bind(target, new, env)

    def _append(self, node: ast.stmt, name: str, item: ast.expr, how: str, env: Env) -> None:
        """`x.append(v)` and `x.extend(v)`: a new list for the name."""
        self.owned(node, name, env, "list")
        pair = self._appended(item, how, env)
        whole = self.items(env.get(name, Static(None)), node)
        if whole is not None and isinstance(pair.owner, TupleOp):
            env[name] = self.tuple(*[self.ssa(v, node) for v in whole], *pair.owner.operands)
        else:
            old = self.value(ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node), env)
            env[name] = self.prim(ConcatTuples, old, pair)

    def _appended(self, item: ast.expr, how: str, env: Env) -> SSAValue:
        """The tuple that `append` or `extend` puts behind a list."""
        if how == "append":
            return self.tuple(self.value(item, env))
        item_value = self.walked(self.expression(item, env))
        known = self.items(item_value, item)
        if known is not None:
            return self.tuple(*[self.ssa(v, item) for v in known])
        return self.prim(ToTuple, self.ssa(item_value, item), count=IntegerAttr(0, i64))

    def _same_names(self, node: ast.Assign, env: Env) -> None:
        """Names that one assignment gives one value."""
        named = [node.value, *node.targets]
        names = {n.id for n in named if isinstance(n, ast.Name) and n.id in env}
        for name in names:
            self.twins[name] = names - {name}

    def _store(self, target: ast.Subscript, value: Value, env: Env) -> None:
        """`x[i] = v`: a new value for the name, or for what the name holds."""
        name = target.value
        while isinstance(name, ast.Subscript | ast.Attribute):
            name = name.value
        if not isinstance(name, ast.Name):
            self.fail(target, f"assignment to {ast.unparse(target)} cannot be compiled", instead_of(target))
        self.owned(target, name.id, env)
        self._replaced(target, value, env)

    def owned(self, node: ast.AST, name: str, env: Env, what: str = "array") -> None:
        """Refuse to change a value that another name or the caller also holds."""
        of = name if name in self.foreign else self.sharing.belongs(name, self.foreign.keys(), deep(node))
        if of is not None:
            self.fail(
                node,
                f"'{of}' belongs to {self.foreign[of]}, and would not change there",
                f"write {name} = {name}.copy() first, and return the new one",
            )
        twins = [n for n in self.twins.get(name, ()) if env.get(n) is env.get(name)]
        if twins:
            self.fail(
                node,
                f"'{twins[0]}' and '{name}' are the same {what}, which cannot be changed",
                f"write {name} = {twins[0]}.copy()",
            )
        if deep(node) and self.sharing.repeated(name, env):
            self.fail(node, f"'{name}' contains the same {what} more than once", "give it copies: a.copy()")
        self.sharing.changing(name, self.after(), env, deep(node))

    def _replaced(self, target: ast.expr, value: Value, env: Env) -> None:
        """A value in place of the name, the item or the field that `target` stands for."""
        if isinstance(target, ast.Name):
            env[target.id] = value
            return
        from glow_frontends.python.indexing import assigned_item

        assert isinstance(target, ast.Subscript | ast.Attribute)
        whole = self.value(_loaded(target.value), env)
        if isinstance(target, ast.Attribute):
            field = StringAttr(target.attr)
            replaced = self.prim(SetField, whole, whole, self.ssa(value, target), field=field)
        else:
            replaced = assigned_item(self, target, whole, value, env)
        if whole in self.fields:
            name = getattr(replaced.owner, "attributes", {}).get("field")
            new = [name.data] if isinstance(name, StringAttr) else []
            self.fields[replaced] = tuple(dict.fromkeys([*self.fields[whole], *new]))
        self._replaced(target.value, replaced, env)

    def _failure(self, node: ast.Raise, env: Env) -> SSAValue:
        """`raise ValueError("..")`: the run stops with the error."""
        error, message = node.exc, ""
        if isinstance(error, ast.Call):
            if error.args:
                message = self._message(error.args[0], env)
            error = error.func
        kind = self.expression(error, env) if error is not None else Static(None)
        if not (isinstance(kind, Static) and isinstance(kind.value, type)) or node.cause is not None:
            self.fail(node, "this raise cannot be compiled", 'write raise ValueError("what is wrong")')
        if not issubclass(kind.value, Exception):
            self.fail(node, f"{kind.value.__name__} is no exception", "raise a subclass of Exception")
        options = {"kind": StringAttr(kind.value.__name__), "message": StringAttr(message)}
        return self.prim(Raise, **options)

    def _message(self, node: ast.expr, env: Env) -> str:
        """The text of an error: values that only the run tells are named instead."""
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.FormattedValue) else p for p in node.values)
            return "".join(str(p.value) if isinstance(p, ast.Constant) else ast.unparse(p) for p in parts)
        message = self.expression(node, env)
        return str(message.value) if isinstance(message, Static) else ast.unparse(node)

    # --- branches ---------------------------------------------------------------------------------
    def _if(self, node: ast.If, rest: Sequence[ast.stmt], env: Env, flow: Flow) -> SSAValue | None:
        test = self.truth(self.expression(node.test, env), node.test)
        if isinstance(test, Static):
            return self.run([*(node.body if test.value else node.orelse), *rest], env, flow)
        if not leaves([node], ast.Return, ast.Break, ast.Continue, ast.Raise):
            self._plain_if(node, test, env, flow.before(rest))
            return None
        body, other = list(node.body), list(node.orelse)
        left, right = definite(body), definite(other)
        if left is None or right is None:
            body, other = (
                (body if left is None else [*body, *rest]),
                (other if right is None else [*other, *rest]),
            )
            return self._branch(test, body, other, env, flow)
        names = self._joined(env, body, other)

        def after(values: list[SSAValue]) -> SSAValue:
            inner = {**env, **dict(zip(names, values, strict=True))}
            return self.run(rest, self.without(inner, [*body, *other], names), flow)

        kept = self.maybe
        target = self.function(f"{self.name}.after", names, after)
        self.maybe = kept

        def ended(e: Env) -> SSAValue:
            return self.call(target, *self.values_of(names, e, node))

        past = replace(flow, past=ended, live=flow.before(rest))
        return self._branch(test, body, other, env, past)

    def _branch(
        self, test: SSAValue, body: Sequence[ast.stmt], other: Sequence[ast.stmt], env: Env, flow: Flow
    ) -> SSAValue:
        """The value of the function is that of one of two continuations."""

        def side(mark: str, statements: Sequence[ast.stmt]) -> SSAValue:
            name, kept = self.name, self.maybe
            self.name, self.sharing.shares = f"{name}.{mark}", shares
            function = self.function(self.name, (), lambda _: self.run(statements, dict(env), flow))
            self.name, self.maybe = name, kept
            return function

        shares = self.sharing.shares
        yes = side("if", body)
        after = self.sharing.shares
        no = side("else", other)
        self.sharing.shares = joined(after, self.sharing.shares)
        return self.call(self.switch(test, yes, no))

    def _plain_if(self, node: ast.If, test: SSAValue, env: Env, live: frozenset[str]) -> None:
        """`if` whose branches fall through: the names they assign are the value of the chosen one."""
        names = self._joined(env, node.body, node.orelse)
        flow = Flow(past=lambda e: self.packed(names, e, node), live=live)
        value = self._branch(test, node.body, node.orelse, env, flow)
        self.spread(names, value, env)
        self.without(env, [*node.body, *node.orelse], names)

    def _joined(self, env: Env, body: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> list[str]:
        left, right = definite(body) or set(), definite(other) or set()
        both = dict.fromkeys([*assigned(body), *assigned(other), *self.sharing.carried])
        return [n for n in both if n in env or (n in left and n in right)]

    def bind(self, target: ast.expr, value: Value, env: Env) -> None:
        if isinstance(target, ast.Subscript):
            self._store(target, value, env)
            return
        if isinstance(target, ast.Name):
            self.foreign.pop(target.id, None)
            self.twins.pop(target.id, None)
        super().bind(target, value, env)

    def without(self, env: Env, statements: Sequence[ast.stmt], names: Sequence[str]) -> Env:
        lost = set(assigned(statements)) - set(names)
        self.maybe = self.maybe | lost
        return env

    def values_of(self, names: Sequence[str], env: Env, node: ast.AST) -> list[SSAValue]:
        return [self.ssa(env[n], node) for n in names]

    def packed(self, names: Sequence[str], env: Env, node: ast.AST) -> SSAValue:
        values = self.values_of(names, env, node)
        return values[0] if len(values) == 1 else self.tuple(*values)

    def spread(self, names: Sequence[str], value: SSAValue, env: Env) -> None:
        for index, name in enumerate(names):
            env[name] = value if len(names) == 1 else self.get(value, index)

    # --- nested functions -------------------------------------------------------------------------
    def _postponed(self, node: ast.FunctionDef, rest: Sequence[ast.stmt], env: Env) -> int:
        """How many statements come before the function so that the names it reads have values.

        Python looks names up when the function is called; here they are captured when it is made.
        """
        inside = {a.arg for a in node.args.args} | set(assigned(node.body)) | {node.name}
        wanted = {n for n in read_names(node) if n not in env} - inside
        count = 0
        for position, statement in enumerate(rest):
            if isinstance(statement, ast.FunctionDef):
                between = any(not isinstance(s, ast.FunctionDef) for s in rest[:position])
                if statement.name in wanted and between:
                    count = position
            elif wanted & set(assigned([statement])):
                count = position + 1
        if any(node.name in read_names(s) for s in rest[:count] if not isinstance(s, ast.FunctionDef)):
            return 0
        return count

    def _group(self, statements: Sequence[ast.stmt]) -> list[ast.FunctionDef]:
        """The function at the front with those right after it that it needs to exist."""
        defs: list[ast.FunctionDef] = []
        for s in statements:
            if not isinstance(s, ast.FunctionDef):
                break
            defs.append(s)
        reach = 1
        index = 0
        while index < reach:
            names = read_names(defs[index])
            later = [i for i, d in enumerate(defs) if d.name in names and i >= reach]
            reach = max([reach, *(i + 1 for i in later)])
            index += 1
        return defs[:reach]

    def _define(self, group: Sequence[ast.FunctionDef], env: Env) -> None:
        from glow_frontends.python.functions import define

        define(self, group, env)


def _whole_number(node: ast.AugAssign) -> bool:
    """Whether an assignment like `i += 1` leaves the type of every array."""
    constant = isinstance(node.value, ast.Constant) and type(node.value.value) is int
    return constant and isinstance(node.op, ast.Add | ast.Sub | ast.Mult)


def _without_else(node: ast.For | ast.While) -> ast.For | ast.While:
    bare = copy.copy(node)
    bare.orelse = []
    return bare


def _loaded(target: ast.expr) -> ast.expr:
    loaded = copy.copy(target)
    loaded.ctx = ast.Load()  # pyright: ignore[reportAttributeAccessIssue]
    return loaded
