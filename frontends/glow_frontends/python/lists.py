"""Lists that change: a new tuple for the name. Sorting and comparing the items of a list."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from glow_dialects.fn.primitives.arithmetic import Add, ToInt
from glow_dialects.fn.primitives.compare import Eq, Ge, Gt, Lt
from glow_dialects.fn.primitives.records import Raise
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.statement_names import changed_list

if TYPE_CHECKING:
    from glow_frontends.python.calls import Keywords
    from glow_frontends.python.expressions import Env, Expressions

#: Items that are sorted one by one; each is compared with all others.
MOST_SORTED = 32


def changes(c: Expressions, node: ast.expr, env: Env) -> bool:
    """Whether a call changes a list, whose items are known one by one: `a.insert(0, v)`, `a.pop()`."""
    name = changed_list(node)
    if name is None or name not in env or c.items(env[name], node) is None:
        return False
    value = env[name]
    return isinstance(value, SSAValue) and value not in c.fields


def change(c: Expressions, node: ast.Call, env: Env) -> Value:
    """Change the list that a call names; its value, which is None but for `pop`."""
    from glow_frontends.python.calls import arguments

    name = changed_list(node)
    assert name is not None and isinstance(node.func, ast.Attribute)
    items = c.items(env[name], node)
    assert items is not None
    c.owned(node, name, env, "list")
    values, keywords = arguments(c, node, env)
    result: Value = Static(None)
    match node.func.attr, values:
        case "insert", [place, value] if not keywords:
            items.insert(_number(c, node, place), value)
        case "pop", [] | [_] if not keywords:
            at = _number(c, node, values[0]) if values else -1
            if not -len(items) <= at < len(items):
                c.fail(node, f"pop of item {at} of a list of {len(items)}")
            result = items.pop(at)
        case "remove", [value] if not keywords:
            numbers, number = [_known(c, node, v) for v in items], _known(c, node, value)
            if number not in numbers:
                c.fail(node, f"{number!r} is not in the list")
            items.pop(numbers.index(number))
        case "reverse", [] if not keywords:
            items.reverse()
        case "clear", [] if not keywords:
            items.clear()
        case "sort", []:
            items = sorted_items(c, node, items, keywords)
        case how, _:
            c.fail(node, f"{how} of a list is called with other arguments")
    env[name] = c.tuple(*[c.ssa(v, node) for v in items])
    return result


def without(c: Expressions, target: ast.expr, env: Env) -> None:
    """`del a[i]` and `del a[i:j]` of a list."""
    match target:
        case ast.Name():
            c.fail(target, "Delete statements cannot be compiled", "leave the name unused")
        case ast.Subscript(value=ast.Name(id=name), slice=key) if name in env:
            items = None if env[name] in c.fields else c.items(env[name], target)
        case _:
            items, name, key = None, "", target
    if items is None:
        c.fail(target, "del needs an item of a list of known length", "build a new one")
    c.owned(target, name, env, "list")
    place = bounds(c, key, env)
    if isinstance(place, int) and not -len(items) <= place < len(items):
        c.fail(target, f"index {place} of a list of {len(items)}")
    del items[place]
    env[name] = c.tuple(*[c.ssa(v, target) for v in items])


def replaced(c: Expressions, target: ast.Subscript, whole: SSAValue, value: Value, env: Env) -> Value | None:
    """A list after `a[i:j] = values`; None for what is no list."""
    items = c.items(whole, target) if isinstance(target.slice, ast.Slice) else None
    new = None if items is None else c.items(value, target)
    if items is None or new is None or whole in c.fields:
        return None
    place = bounds(c, target.slice, env)
    assert isinstance(place, slice)
    try:
        items[place] = new
    except ValueError as error:
        c.fail(target, str(error))
    return c.tuple(*[c.ssa(v, target) for v in items])


def bounds(c: Expressions, node: ast.expr, env: Env) -> int | slice:
    """A subscript of a list: numbers that are known."""
    if not isinstance(node, ast.Slice):
        return _number(c, node, c.expression(node, env))
    parts = (node.lower, node.upper, node.step)
    return slice(*[None if p is None else _number(c, p, c.expression(p, env)) for p in parts])


def _number(c: Expressions, node: ast.AST, value: Value) -> int:
    from glow_frontends.python.calls import int_constant

    number = int_constant(value)
    if not isinstance(number, int):
        c.fail(node, "the index in a list must be a number known at compile time")
    return number


def _known(c: Expressions, node: ast.AST, value: Value) -> object:
    now = value if isinstance(value, Static) else c.known_now(value)
    if not isinstance(now, Static):
        c.fail(node, "remove needs items that are known at compile time", "use del with a number")
    return now.value


# --- order --------------------------------------------------------------------------------------------
def sorted_items(c: Expressions, node: ast.AST, items: Sequence[Value], keywords: Keywords) -> list[Value]:
    """The items in order, equal ones as they stood: neighbours change places where the later is smaller."""
    backwards = keywords.get("reverse", Static(False))
    if not isinstance(backwards, Static) or keywords.keys() - {"key", "reverse"}:
        c.fail(node, "sorting takes key, and reverse=True or False")
    if len(items) > MOST_SORTED:
        c.fail(node, f"sorting {len(items)} items one by one", "use np.sort of an array")
    pairs = [(c.ssa(v, node), key) for v, key in zip(items, _keys(c, node, items, keywords), strict=True)]
    for last in range(1, len(pairs)):
        for at in range(last, 0, -1):
            (left, low), (right, high) = pairs[at - 1 : at + 1]
            test = c.prim(Lt, low, high) if backwards.value else c.prim(Lt, high, low)
            first = c.switch(test, right, left), c.switch(test, high, low)
            then = c.switch(test, left, right), c.switch(test, low, high)
            pairs[at - 1 : at + 1] = [first, then]
    return [v for v, _ in pairs]


def extreme(name: str, c: Expressions, node: ast.AST, items: Sequence[Value], keywords: Keywords) -> Value:
    """max or min of items with `key` and `default`: the first of equal ones."""
    if keywords.keys() - {"key", "default"}:
        c.fail(node, f"{name} takes key and default")
    if not items:
        if "default" not in keywords:
            c.fail(node, f"{name} of nothing", "give a default")
        return keywords["default"]
    values = [c.ssa(v, node) for v in items]
    best, *rest = zip(values, _keys(c, node, items, keywords), strict=True)
    for value, key in rest:
        better = c.prim(Gt if name == "max" else Lt, key, best[1])
        best = c.switch(better, value, best[0]), c.switch(better, key, best[1])
    return best[0]


def _keys(c: Expressions, node: ast.AST, items: Sequence[Value], keywords: Keywords) -> list[SSAValue]:
    from glow_frontends.python.calls import apply_value

    key = keywords.get("key", Static(None))
    if isinstance(key, Static) and key.value is None:
        return [c.ssa(v, node) for v in items]
    return [c.ssa(apply_value(c, node, key, [v], {}), node) for v in items]


def _count(c: Expressions, node: ast.AST, items: list[SSAValue], value: SSAValue) -> SSAValue:
    count = c.constant(0)
    for item in items:
        count = c.prim(Add, count, c.prim(ToInt, c.prim(Eq, item, value)))
    return count


def _index(c: Expressions, node: ast.AST, items: list[SSAValue], value: SSAValue) -> SSAValue:
    index = c.constant(-1)
    for place, item in reversed(list(enumerate(items))):
        index = c.switch(c.prim(Eq, item, value), c.constant(place), index)
    error = {"kind": StringAttr("ValueError"), "message": StringAttr("a value is not in the list")}
    return c.choose(c.prim(Ge, index, c.constant(0)), lambda _: index, lambda _: c.prim(Raise, **error))


#: Methods that ask a list.
ASKING: dict[str, Callable[[Expressions, ast.AST, list[SSAValue], SSAValue], SSAValue]] = {
    "count": _count,
    "index": _index,
}

__all__ = ["ASKING", "change", "changes", "extreme", "replaced", "sorted_items", "without"]
