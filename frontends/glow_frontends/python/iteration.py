"""The iterables of a `for`: counters for ranges, positions of tuples and arrays, items known one by one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from glow_dialects.fn.primitives.arithmetic import Add, FloorDiv, Mul, Sign, Sub
from glow_dialects.fn.primitives.compare import Gt, Lt, Max, Min
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.tuples import Len
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.errors import FunctionError
from glow_frontends.python.expressions import Env
from glow_frontends.python.shared_names import changed
from glow_frontends.python.statement_names import changed_list

if TYPE_CHECKING:
    from glow_frontends.python.statements import Statements


@dataclass
class Counted:
    """A loop with a counter: its first value, its test, its step, and the value in the body."""

    start: dict[str, SSAValue]
    test: Callable[[Env], SSAValue]
    step: Callable[[Env], None]
    enter: Callable[[Env], None]


@dataclass
class Items:
    """The items of a `for` as far as known: their values, and whether each gets its own body."""

    whole: Value | None = None
    items: list[Value] | None = None
    apart: bool = False
    asked: bool = False


#: A number of items, and the function from position to item, for the names as they are then.
Picker = tuple[SSAValue, Callable[[SSAValue, Env], Value]]


def _callee(c: Statements, node: ast.expr, env: Env) -> object:
    if not isinstance(node, ast.Call):
        return None
    function = c.expression(node.func, env) if isinstance(node.func, ast.Name | ast.Attribute) else None
    return function.value if isinstance(function, Static) else None


#: The iterables of a loop besides values.
_WALKS: tuple[object, ...] = (range, enumerate, zip, reversed)


def known_items(c: Statements, node: ast.For, env: Env) -> Items:
    """The items of a `for` as far as they are known when compiling."""
    source = node.iter
    kind = _callee(c, source, env)
    if getattr(kind, "glow_transform", None) == "unroll":
        assert isinstance(source, ast.Call)
        items = c.items(c.expression(source.args[0], env), source)
        if items is None:
            c.fail(source, "glow.unroll needs items that are known at compile time", "leave it out")
        return Items(None, items, True, True)
    if kind in _WALKS:
        before, c.walking = c.walking, True
        try:
            whole = c.expression(source, env)
        except FunctionError:
            return Items()  # of unknown length: the positions are counted
        finally:
            c.walking = before
        numbers = isinstance(whole, Static) and isinstance(whole.value, range)
        return Items(None if kind is range else whole, c.items(whole, source), not numbers or _appends(node))
    whole = c.expression(source, env)
    numbers = isinstance(whole, Static) and isinstance(whole.value, range)
    return Items(whole, c.items(whole, source), not numbers or _appends(node))


def item_at(c: Statements, node: ast.For, index: int, items: Sequence[Value], env: Env) -> Value | None:
    """The item of a turn that is written out, for lists as the turns before left them; None at the end."""
    names = _changing(node) & _walked_names(node.iter)
    now = known_items(c, node, env).items if names else items
    if len(now or items) != len(items) or (now is None and _resizes(node, names)):
        c.fail(node, "the loop changes the length of its list", "loop over a copy: for v in x.copy()")
    if index == len(items):
        return None
    return now[index] if now is not None else _picker(c, node, node.iter, env)[1](c.constant(index), env)


def _resizes(node: ast.For, names: set[str]) -> bool:
    """Whether a body may make the lists of names longer or shorter."""
    for n in (n for s in node.body for n in ast.walk(s)):
        match n:
            case ast.Call() if changed_list(n) in names:
                return True
            case ast.Delete() | ast.AugAssign(target=ast.Name()):
                if names & {m.id for m in ast.walk(n) if isinstance(m, ast.Name)}:
                    return True
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(), ctx=ast.Store()) if name in names:
                return True
            case _:
                pass
    return False


def _walked_names(iterable: ast.expr) -> set[str]:
    """The names whose items a loop takes: of `x`, `zip(x, y)`, `enumerate(x)`."""
    if isinstance(iterable, ast.Call):
        return {n for a in iterable.args for n in _walked_names(a)}
    return {iterable.id} if isinstance(iterable, ast.Name) else set()


def _appends(node: ast.For) -> bool:
    """Whether a tuple grows or shrinks in the body, so that each turn has its own types."""
    display = ast.Tuple | ast.List
    for n in (n for s in node.body for n in ast.walk(s)):
        match n:
            case ast.Call() if changed_list(n) is not None:
                return True
            case ast.Delete():
                return True
            case ast.AugAssign(op=ast.Add(), value=value) if isinstance(value, display):
                return True
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                if isinstance(left, display) or isinstance(right, display):
                    return True
            case ast.Assign(value=ast.Tuple(elts=items) | ast.List(elts=items)):
                if any(isinstance(e, ast.Starred) for e in items):
                    return True
            case _:
                pass
    return False


def counted(c: Statements, node: ast.For, whole: Value | None, env: Env) -> Counted:
    """The counter of a `for` statement."""
    counter = f"%{node.lineno}.{node.col_offset}"
    call = node.iter
    if isinstance(call, ast.Call) and _callee(c, call, env) is range:
        first, last, step, known = _bounds(c, call, env)
        return _steps(c, node, counter, [first, last, step], known)
    if isinstance(whole, Static) and isinstance(whole.value, range):
        numbers = [c.constant(v) for v in (whole.value.start, whole.value.stop, whole.value.step)]
        return _steps(c, node, counter, numbers, whole.value.step)
    if whole is not None:
        return _positions(c, node, counter, _items(c, node, whole, node.iter, env))
    return _positions(c, node, counter, _picker(c, node, node.iter, env))


def _bounds(c: Statements, call: ast.Call, env: Env) -> tuple[SSAValue, SSAValue, SSAValue, int | None]:
    """First, last and step of a range, and the step where it is known."""
    values = [c.expression(a, env) for a in call.args]
    if not 1 <= len(values) <= 3 or call.keywords:
        c.fail(call, "range takes one to three numbers")
    step = values[2] if len(values) == 3 else Static(1)
    first, last = (Static(0), values[0]) if len(values) == 1 else (values[0], values[1])
    known = step.value if isinstance(step, Static) and isinstance(step.value, int) else None
    if known == 0:
        c.fail(call, "range by steps of 0 never ends")
    return c.ssa(first, call), c.ssa(last, call), c.ssa(step, call), known


def _steps(c: Statements, node: ast.For, counter: str, numbers: list[SSAValue], known: int | None) -> Counted:
    first, last, step = numbers

    def test(env: Env) -> SSAValue:
        now = c.ssa(env[counter], node)
        if known is not None:
            return c.prim(Lt if known > 0 else Gt, now, last)
        return c.prim(Gt, c.prim(Mul, c.prim(Sub, last, now), step), c.constant(0))

    def advance(env: Env) -> None:
        env[counter] = c.prim(Add, c.ssa(env[counter], node), step)

    return Counted({counter: first}, test, advance, lambda e: c.bind(node.target, e[counter], e))


def _positions(c: Statements, node: ast.For, counter: str, picker: Picker) -> Counted:
    count, pick = picker

    def advance(env: Env) -> None:
        env[counter] = c.prim(Add, c.ssa(env[counter], node), c.constant(1))

    return Counted(
        {counter: c.constant(0)},
        lambda e: c.prim(Lt, c.ssa(e[counter], node), count),
        advance,
        lambda e: c.bind(node.target, pick(c.ssa(e[counter], node), e), e),
    )


def _changing(node: ast.For) -> set[str]:
    """The names whose value the body changes in place: a loop over it meets what earlier turns wrote."""
    statements = [s for part in node.body for s in ast.walk(part) if isinstance(s, ast.stmt)]
    again = {
        t.id for s in statements if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)
    }
    return {name for s in statements for name, _ in changed(s)} - again


def _items(c: Statements, loop: ast.For, whole: Value, node: ast.expr, env: Env) -> Picker:
    value = c.ssa(c.walked(whole), node)
    name = node.id if isinstance(node, ast.Name) and node.id in _changing(loop) else None
    if name is None:
        value = c.sharing.iterated(loop, node, value, env)
    count = c.prim(Len, value)
    return count, lambda i, env: c.prim(Item, value if name is None else c.ssa(env[name], node), i)


def _picker(c: Statements, loop: ast.For, node: ast.expr, env: Env) -> Picker:
    """The positions of a range, enumerate, zip or reversed, of each other too, or of a value."""
    kind = _callee(c, node, env)
    if not isinstance(node, ast.Call) or kind not in _WALKS:
        return _items(c, loop, c.expression(node, env), node, env)
    if kind is range:
        first, last, step, _ = _bounds(c, node, env)
        over = c.prim(Sub, c.prim(Add, c.prim(Sub, last, first), step), c.prim(Sign, step))
        count = c.prim(Max, c.prim(FloorDiv, over, step), c.constant(0))
        return count, lambda i, _: c.prim(Add, first, c.prim(Mul, i, step))
    if not node.args:
        c.fail(node, f"{getattr(kind, '__name__', kind)} needs something to run over")
    if kind is zip:
        pickers = [_picker(c, loop, a, env) for a in node.args]
        count = pickers[0][0]
        for other, _ in pickers[1:]:
            count = c.prim(Min, count, other)
        return count, lambda i, e: c.tuple(*[c.ssa(pick(i, e), node) for _, pick in pickers])
    count, pick = _picker(c, loop, node.args[0], env)
    if kind is reversed:
        last = c.prim(Sub, count, c.constant(1))
        return count, lambda i, e: pick(c.prim(Sub, last, i), e)
    named = [k.value for k in node.keywords if k.arg == "start"]
    arguments = [*node.args[1:], *named]
    start = c.value(arguments[0], env) if arguments else c.constant(0)
    return count, lambda i, e: c.tuple(c.prim(Add, i, start), c.ssa(pick(i, e), node))
