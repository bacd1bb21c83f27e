"""What a `for` runs over: counters for ranges, positions of tuples and arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from glow_frontends.python.emit import Static, Value
from glow_frontends.python.expressions import Env

if TYPE_CHECKING:
    from glow_frontends.python.statements import Statements


@dataclass
class Counted:
    """A loop with a counter: its first value, its test, its step, and what the body sees."""

    start: dict[str, SSAValue]
    test: Callable[[Env], SSAValue]
    step: Callable[[Env], None]
    enter: Callable[[Env], None]


def counted(c: Statements, node: ast.For, whole: Value | None, env: Env) -> Counted:
    """The counter of a `for` statement."""
    counter = f"%{node.lineno}.{node.col_offset}"
    call = node.iter
    if isinstance(call, ast.Call):
        function = c.expression(call.func, env)
        kind = function.value if isinstance(function, Static) else None
        if kind is range:
            return _range(c, node, call, counter, env)
        if kind in (enumerate, zip, reversed):
            return _positions(c, node, counter, _picker(c, node, call, kind, env))
        whole = c.expression(call, env)
    assert whole is not None
    if isinstance(whole, Static) and isinstance(whole.value, range):
        numbers = [c.constant(v) for v in (whole.value.start, whole.value.stop, whole.value.step)]
        return _steps(c, node, counter, numbers, whole.value.step)
    value = c.ssa(whole, node.iter)
    return _positions(c, node, counter, (c.prim("len", value), lambda i: c.prim("item", value, i)))


def _range(c: Statements, node: ast.For, call: ast.Call, counter: str, env: Env) -> Counted:
    values = [c.expression(a, env) for a in call.args]
    if not 1 <= len(values) <= 3 or call.keywords:
        c.fail(call, "range takes one to three numbers")
    step = values[2] if len(values) == 3 else Static(1)
    first, last = (Static(0), values[0]) if len(values) == 1 else (values[0], values[1])
    known = step.value if isinstance(step, Static) and isinstance(step.value, int) else None
    if known == 0:
        c.fail(call, "range by steps of 0 never ends")
    return _steps(c, node, counter, [c.ssa(v, call) for v in (first, last, step)], known)


def _steps(c: Statements, node: ast.For, counter: str, numbers: list[SSAValue], known: int | None) -> Counted:
    first, last, step = numbers

    def test(env: Env) -> SSAValue:
        now = c.ssa(env[counter], node)
        if known is not None:
            return c.prim("lt" if known > 0 else "gt", now, last)
        return c.prim("gt", c.prim("mul", c.prim("sub", last, now), step), c.constant(0))

    def advance(env: Env) -> None:
        env[counter] = c.prim("add", c.ssa(env[counter], node), step)

    return Counted({counter: first}, test, advance, lambda e: c.bind(node.target, e[counter], e))


Picker = tuple[SSAValue, Callable[[SSAValue], Value]]


def _positions(c: Statements, node: ast.For, counter: str, picker: Picker) -> Counted:
    count, pick = picker

    def advance(env: Env) -> None:
        env[counter] = c.prim("add", c.ssa(env[counter], node), c.constant(1))

    return Counted(
        {counter: c.constant(0)},
        lambda e: c.prim("lt", c.ssa(e[counter], node), count),
        advance,
        lambda e: c.bind(node.target, pick(c.ssa(e[counter], node)), e),
    )


def _picker(c: Statements, node: ast.For, call: ast.Call, kind: object, env: Env) -> Picker:
    values = [c.value(a, env) for a in call.args]
    if not values:
        c.fail(call, f"{getattr(kind, '__name__', kind)} needs something to run over")
    count = c.prim("len", values[0])
    if kind is zip:
        for value in values[1:]:
            count = c.prim("min", count, c.prim("len", value))
        return count, lambda i: c.tuple(*[c.prim("item", v, i) for v in values])
    if kind is reversed:
        last = c.prim("sub", count, c.constant(1))
        return count, lambda i: c.prim("item", values[0], c.prim("sub", last, i))
    start = values[1] if len(values) > 1 else c.constant(0)
    return count, lambda i: c.tuple(c.prim("add", i, start), c.prim("item", values[0], i))
