"""Loops as functions that call themselves, or as copies of their bodies where items are known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from glow_dialects.fn.primitives.cotangents import Zero
from glow_dialects.fn.primitives.records import Raise
from glow_dialects.fn.primitives.tuples import CheckAssigned
from glow_frontends.python.emit import Value
from glow_frontends.python.errors import LengthUnknown
from glow_frontends.python.iteration import counted, item_at, known_items
from glow_frontends.python.statement_names import (
    always,
    assigned,
    certain,
    definite,
    leaves,
    repeated,
    surely,
    targets,
)
from glow_frontends.python.statements import Exit, Flow

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Env
    from glow_frontends.python.statements import Statements

#: A `for` over so many items that are known one by one becomes as many copies of its body.
UNROLL = 32
#: So many copies are made where there is no other way, or where `glow.unroll` asks for them.
MOST = 1024


class _Mark:
    """Names that a loop gives their first value, and whether it did.

    They start as the symbolic zero, which has any type. What is read after a loop without a turn, or after a
    `break` in front of the assignment, is an error of the run, as in Python.
    """

    def __init__(self, c: Statements, node: ast.While | ast.For, new: Sequence[str], breaks: bool) -> None:
        self.c, self.node, self.new = c, node, new
        #: The name of the bool that the loop carries, where it may stop in the middle of its first turn.
        self.flag = f"%set{node.lineno}.{node.col_offset}" if new and breaks else None
        self.ran: SSAValue | None = None

    @property
    def names(self) -> list[str]:
        """The values that the loop carries besides the names."""
        return [] if self.flag is None else [self.flag]

    def start(self, env: Env, test: Callable[[], SSAValue | None]) -> None:
        """Before the loop, whose test of the first turn is `test`."""
        if self.flag is not None:
            env[self.flag] = self.c.constant(False)
        elif self.new:
            self.ran = test()
        env.update({n: self.c.prim(Zero) for n in self.new})

    def filled(self, env: Env, before: Env) -> Env:
        """The names after a turn or a part of one; those that it gave no value have that of `before`."""
        filled = {**env, **{n: before[n] for n in self.new if n not in env}}
        if self.flag is not None and all(n in env for n in self.new):
            filled[self.flag] = self.c.constant(True)
        return filled

    def check(self, env: Env) -> None:
        """After the loop: an error unless the names have values."""
        ran = self.ran if self.flag is None else env.pop(self.flag)
        if ran is None:
            return
        c, names = self.c, self.new
        text = f"cannot access local variable '{names[0]}' where it is not associated with a value"
        options = {"kind": StringAttr("UnboundLocalError"), "message": StringAttr(text)}
        values = [c.ssa(env[n], self.node) for n in names]

        def outcome(_: list[SSAValue]) -> SSAValue:
            return c.tuple(*[c.prim(CheckAssigned, v) for v in values])

        checked = c.choose(c.ssa(ran, self.node), outcome, lambda _: c.prim(Raise, **options))
        env.update({n: c.get(checked, i) for i, n in enumerate(names)})


class Loops:
    """Compiles one loop and what follows it (`rest`) in the surroundings of `env` and `flow`."""

    def __init__(self, c: Statements, rest: Sequence[ast.stmt], env: Env, flow: Flow) -> None:
        self.c, self.rest, self.env, self.flow = c, rest, env, flow

    def compile(self, node: ast.While | ast.For) -> SSAValue | None:
        """The value of the function where the loop or what follows gives it, None to go on after it."""
        return self._while(node) if isinstance(node, ast.While) else self._for(node)

    def _while(self, node: ast.While) -> SSAValue | None:
        if isinstance(node.test, ast.Constant) and not node.test.value:
            return None
        return self._loop(node, None if always(node.test) else node.test, lambda e: None, ())

    def _for(self, node: ast.For) -> SSAValue | None:
        c, env = self.c, self.env
        kept = c.block, c.name, c.maybe, c.line, dict(env)
        source = known_items(c, node, env)
        most = MOST if source.asked else UNROLL
        if source.items is not None and source.apart and len(source.items) <= most:
            return self._unrolled(node, source.items)
        try:
            loop = counted(c, node, source.whole, env)
            env.update(loop.start)
            return self._loop(node, loop.test, loop.step, list(loop.start), loop.enter)
        except LengthUnknown:
            if source.items is None or len(source.items) > MOST:
                raise
        c.block, c.name, c.maybe, c.line = kept[:4]
        env.clear()
        env.update(kept[4])
        return self._unrolled(node, source.items)

    # --- functions that call themselves -------------------------------------------------------------
    def _past(
        self, node: ast.While | ast.For, visible: Sequence[str], test: object, mark: _Mark
    ) -> tuple[Exit, bool]:
        """Where the loop leaves to, and whether that gives the value of the function."""
        c = self.c
        endless = test is None and not leaves(node.body, ast.Break)
        jumps = leaves(node.orelse, ast.Return, ast.Break, ast.Continue, ast.Raise)
        if not (endless or jumps or leaves(node.body, ast.Return, ast.Raise)):
            return lambda e: c.packed(visible, e, node), False
        if endless and definite([node]) is None:
            return lambda e: c.constant(None), True  # never reached
        return self._after(node, visible, mark), True

    def _after(self, node: ast.stmt, visible: Sequence[str], mark: _Mark | None = None) -> Exit:
        c = self.c
        kept = c.maybe

        def after(values: list[SSAValue]) -> SSAValue:
            inner = {**self.env, **dict(zip(visible, values, strict=True))}
            c.maybe = c.maybe - set(visible)
            if mark is not None:
                mark.check(inner)
            return c.run(self.rest, c.without(inner, [node], visible), self.flow)

        target = c.function(f"{c.name}.after", visible, after)
        c.maybe = kept
        return lambda e: c.call(target, *c.values_of(visible, e, node))

    def _new(self, node: ast.While | ast.For, names: Sequence[str]) -> list[str]:
        """Names without a value before the loop that each turn gives one, and that are read after it.

        Where there may be no turn, only those that are read in any case: the loop then raises the error.
        """
        own = certain(node.body) | (set(targets(node.target)) if isinstance(node, ast.For) else set[str]())
        turns = _has_turns(node) and not leaves(node.body, ast.Break)
        read = self.flow.before(self.rest) if turns else surely(self.rest)
        return [n for n in names if n in own and n in read and n not in self.env]

    def _loop(
        self,
        node: ast.While | ast.For,
        test: ast.expr | Callable[[Env], SSAValue] | None,
        step: Callable[[Env], None],
        hidden: Sequence[str],
        enter: Callable[[Env], None] = lambda e: None,
    ) -> SSAValue | None:
        """A header that calls itself; `hidden` names are the counters of `for`, `step` advances them."""
        c, env = self.c, self.env
        bound = dict.fromkeys([*assigned(node.body), *assigned([node]), *c.sharing.carried])
        new = self._new(node, list(bound))
        mark = _Mark(c, node, new, leaves(node.body, ast.Break))
        mark.start(env, lambda: self._condition(test, dict(env)))
        names = [*hidden, *(n for n in bound if n in env), *mark.names]
        visible, kept, name = [n for n in names if n not in hidden], c.maybe - set(new), c.name
        past, final = self._past(node, visible, test, mark)
        body_flow = Flow(past, past, None, self.flow.before(self.rest) | repeated(node))

        def ended(e: Env) -> SSAValue:
            return c.run(node.orelse, e, replace(self.flow, past=past)) if node.orelse else past(e)

        def header(values: list[SSAValue]) -> SSAValue:
            own, *variables = values
            whole = {**env, **dict(zip(names, variables, strict=True))}
            inner = {n: v for n, v in whole.items() if n not in new}

            def again(e: Env) -> SSAValue:
                step(e)
                return c.call(own, *c.values_of(names, mark.filled(e, whole), node))

            def body(e: Env) -> SSAValue:
                enter(e)
                if isinstance(node, ast.For):
                    c.sharing.walked(node, e)
                flow = replace(body_flow, leave=lambda e: past(mark.filled(e, whole)))
                return c.run(node.body, e, replace(flow, past=again, again=again))

            c.maybe = kept | set(new)
            condition = self._condition(test, inner)
            if condition is None:
                return body(inner)
            mark_name = c.name
            c.name = f"{name}.body"
            yes = c.function(c.name, (), lambda _: body(dict(inner)))
            c.name, c.maybe = mark_name, kept
            no = c.function(f"{name}.exit", (), lambda _: ended(dict(whole)))
            return c.call(c.switch(condition, yes, no))

        c.name = f"{name}.loop"
        loop = c.function(c.name, ("self", *names), header, recursive=True)
        c.name, c.maybe = name, kept
        value = c.call(loop, *c.values_of(names, env, node))
        if final:
            return value
        c.spread(visible, value, env)
        mark.check(env)
        c.without(env, [node], visible)
        return None

    def _condition(self, test: ast.expr | Callable[[Env], SSAValue] | None, env: Env) -> SSAValue | None:
        """Whether a further turn follows; None where one always does."""
        if isinstance(test, ast.expr):
            return self.c.ssa(self.c.truth(self.c.expression(test, env), test), test)
        return None if test is None else test(env)

    # --- copies -------------------------------------------------------------------------------------
    def _unrolled(self, node: ast.For, items: Sequence[Value]) -> SSAValue | None:
        c, env = self.c, self.env
        items = [self._apart(node, item) for item in items]
        live = self.flow.before(self.rest) | repeated(node)
        jumps = leaves(node.body, ast.Break, ast.Continue)
        if leaves([node], ast.Return, ast.Raise) or leaves(node.orelse, ast.Break, ast.Continue):
            names = self._visible(node, items)
            leave = self._after(node, names) if leaves(node.body, ast.Break) else None
            end = Flow(lambda e: c.run([*node.orelse, *self.rest], e, self.flow), leave, None, live)
            return self._copies(node, items, env, names, end)
        if not jumps:
            for item in self._turns(node, items):
                c.bind(node.target, item, env)
                c.sharing.walked(node, env)
                c.run(node.body, env, Flow(past=lambda e: c.constant(None), live=live))  # unread
            return None
        names = self._visible(node, items)
        packed: Exit = lambda e: c.packed(names, e, node)  # noqa: E731
        end = Flow(lambda e: c.run(node.orelse, e, Flow(past=packed, live=live)), packed, None, live)
        kept = c.maybe
        copies = c.function(
            f"{c.name}.copies", (), lambda _: self._copies(node, items, dict(env), names, end)
        )
        c.maybe = kept
        c.spread(names, c.call(copies), env)
        c.without(env, [node], names)
        return None

    def _apart(self, node: ast.For, item: Value) -> Value:
        """An item, refused where the loop changes the array that it is part of."""
        return (
            self.c.sharing.iterated(node, node.iter, item, self.env) if isinstance(item, SSAValue) else item
        )

    def _turns(self, node: ast.For, items: Sequence[Value]) -> Iterator[Value]:
        """The items one after another, as the turns before leave them."""
        for index in range(len(items) + 1):
            item = item_at(self.c, node, index, items, self.env)
            if item is not None:
                yield item

    def _visible(self, node: ast.For, items: Sequence[Value]) -> list[str]:
        """Names that have a value wherever copies of a body are left, which may be read after them."""
        known = set(self.env)
        if items:
            known |= set(targets(node.target)) & self.flow.before(self.rest)
        return [n for n in dict.fromkeys([*assigned([node]), *self.c.sharing.carried]) if n in known]

    def _copies(
        self, node: ast.For, items: Sequence[Value], env: Env, names: Sequence[str], end: Flow
    ) -> SSAValue:
        """A copy of the body for each item, of which several places lead to the next; then `end`."""
        c = self.c

        def one(index: int, e: Env) -> SSAValue:
            item = item_at(c, node, index, items, e)
            if item is None:
                return end.past(e)

            def following(inner: Env) -> SSAValue:
                return one(index + 1, inner)

            c.bind(node.target, item, e)
            again: Exit = following
            if leaves(node.body, ast.Continue):
                again = self._turn(node, names, following, e)
            c.sharing.walked(node, e)
            return c.run(node.body, e, Flow(again, end.leave, again, end.live))

        return one(0, env)

    def _turn(self, node: ast.For, visible: Sequence[str], body: Exit, env: Env) -> Exit:
        """The next copy as a function, for bodies that reach it in several ways."""
        c, kept = self.c, self.c.maybe
        target = c.function(
            f"{c.name}.turn",
            visible,
            lambda values: body({**env, **dict(zip(visible, values, strict=True))}),
        )
        c.maybe = kept
        return lambda e: c.call(target, *c.values_of(visible, e, node))


def _has_turns(node: ast.While | ast.For) -> bool:
    """Whether a loop is seen to have a turn: `for .. in range(3)`."""
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))])):
            return count > 0
        case _:
            return False
