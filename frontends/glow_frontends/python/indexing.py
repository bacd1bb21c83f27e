"""Subscripts: items of tuples, rows, slices and picked elements of arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from glow_frontends.python.emit import Static, Value
from glow_frontends.python.numpy_names import as_array

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Env, Expressions


def subscript(c: Expressions, node: ast.Subscript, env: Env) -> Value:
    """The value of `x[...]`."""
    whole = c.expression(node.value, env)
    if isinstance(node.slice, ast.Slice):
        items = c.items(whole, node)
        numbers: list[SSAValue] = []
        entry = _entry(c, node.slice, env, numbers)
        if items is not None and not numbers:
            bounds = [int(b) if b else None for b in entry.data.split(":")]  # pyright: ignore
            return c.tuple(*[c.ssa(v, node) for v in items[slice(*bounds)]])
        return c.prim("getitem", c.ssa(whole, node), *numbers, key=ArrayAttr([entry]))
    single = isinstance(node.slice, ast.Constant) and node.slice.value in (None, Ellipsis)
    if isinstance(node.slice, ast.Tuple) or single:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if all(_fixed(c, part, env) for part in parts):
            numbers = []
            key = ArrayAttr([_entry(c, part, env, numbers) for part in parts])
            return c.prim("getitem", c.ssa(whole, node), *numbers, key=key)
        return _picked(c, c.ssa(whole, node), parts, env)
    index = c.expression(node.slice, env)
    if isinstance(index, Static) and isinstance(index.value, list | np.ndarray):
        index = Static(np.asarray(index.value))
    if isinstance(whole, Static) and isinstance(index, Static) and isinstance(whole.value, dict):
        if index.value not in whole.value:
            c.fail(node, f"there is no key {index.value!r}")
        return Static(whole.value[index.value])
    if isinstance(index, Static) and isinstance(index.value, str):
        return c.prim("field", c.ssa(whole, node), field=StringAttr(index.value))
    if isinstance(index, Static) and isinstance(index.value, int):
        items = c.items(whole, node)
        if items is not None:
            if not -len(items) <= index.value < len(items):
                c.fail(node, f"index {index.value} of a tuple of {len(items)}")
            return items[index.value]
        if isinstance(whole, Static):
            return Static(whole.value[index.value])
    return c.prim("item", c.ssa(whole, node), c.ssa(index, node))


def _picked(c: Expressions, made: SSAValue, parts: Sequence[ast.expr], env: Env) -> SSAValue:
    """`x[i, :, j]` where a number is known at run time only: slices first, then one axis after another."""
    if not any(isinstance(p, ast.Slice) for p in parts) and len(parts) > 1:
        chosen = [c.expression(p, env) for p in parts]
        if any(_is_array(i) for i in chosen):
            return c.prim("np:pick", made, *[as_array(c, p, i) for i, p in zip(chosen, parts, strict=True)])
        for index, part in zip(chosen, parts, strict=True):
            made = c.prim("item", made, c.ssa(index, part), alone=UnitAttr())
        return made
    whole = StringAttr("::")
    entries: list[Attribute] = []
    indices: list[tuple[int, SSAValue]] = []
    numbers: list[SSAValue] = []
    for axis, part in enumerate(parts):
        if isinstance(part, ast.Constant) and part.value in (None, Ellipsis):
            c.fail(
                part, "a new axis or ... beside an index that is not known now", "index one axis at a time"
            )
        if isinstance(part, ast.Slice):
            entries.append(_entry(c, part, env, numbers))
        else:
            entries.append(whole)
            indices.append((axis, c.value(part, env)))
    made = c.prim("getitem", made, *numbers, key=ArrayAttr(entries))
    for axis, index in reversed(indices):
        made = c.prim("op:gather", made, index, axis=IntegerAttr(axis, i64))
    return made


def _is_array(index: Value) -> bool:
    """Whether an index is seen to be an array."""
    if isinstance(index, Static):
        return isinstance(index.value, np.ndarray | list | range)
    prim = getattr(index.owner, "prim", None)
    return prim is not None and (prim.data.startswith("np:") or prim.data in ("array_of", "stack_values"))


def assigned_item(c: Expressions, target: ast.Subscript, whole: SSAValue, value: Value, env: Env) -> SSAValue:
    """`whole` with `value` where `target` points: `x[i] = v`, `x[i, 1:] = v`, `x[mask] = v`."""
    index = target.slice
    if not isinstance(index, ast.Slice | ast.Tuple) and not _is_ellipsis(index):
        place = c.expression(index, env)
        if isinstance(place, Static) and isinstance(place.value, str):
            return c.prim("with_field", whole, whole, c.ssa(value, target), field=StringAttr(place.value))
        return c.prim("with_item", whole, as_array(c, index, place), c.ssa(value, target))
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    numbers = [as_array(c, target, value)]
    key: list[Attribute] = []
    for part in parts:
        if _fixed(c, part, env):
            key.append(_entry(c, part, env, numbers))
        else:
            numbers.append(as_array(c, part, c.expression(part, env)))
            key.append(StringAttr(f"${len(numbers)}"))
    return c.prim("np:setitem", whole, *numbers, key=ArrayAttr(key))


def _fixed(c: Expressions, part: ast.expr, env: Env) -> bool:
    if isinstance(part, ast.Slice) or _is_ellipsis(part):
        return True
    if isinstance(part, ast.Name | ast.Constant | ast.UnaryOp | ast.Attribute):
        made = c.expression(part, env)
        return isinstance(made, Static) and isinstance(made.value, int | None)
    return False


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is Ellipsis


def _bound(c: Expressions, part: ast.expr | None, env: Env, numbers: list[SSAValue]) -> str:
    """A bound of a slice: nothing, a number, or `$k` for a further argument k that the types tell."""
    if part is None:
        return ""
    made = c.expression(part, env)
    if isinstance(made, Static):
        if not isinstance(made.value, int | None):
            c.fail(part, f"a bound of a slice cannot be {made.value!r}", "use ints")
        return "" if made.value is None else str(int(made.value))
    numbers.append(c.ssa(made, part))
    return f"${len(numbers)}"


def _entry(c: Expressions, part: ast.expr, env: Env, numbers: list[SSAValue]) -> Attribute:
    """One axis of a key: `a:b:c`, a number, `new` or `...`; bounds not known yet go to `numbers`."""
    if isinstance(part, ast.Slice):
        return StringAttr(":".join(_bound(c, p, env, numbers) for p in (part.lower, part.upper, part.step)))
    if _is_ellipsis(part):
        return StringAttr("...")
    made = c.expression(part, env)
    assert isinstance(made, Static)
    if made.value is None:
        return StringAttr("new")
    if not isinstance(made.value, int):
        c.fail(part, f"an index cannot be {made.value!r}", "use numbers and slices")
    return IntegerAttr(made.value, i64)
