"""Subscripts: items of tuples, rows, slices and picked elements of arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.fn.primitives.assignment import SetField, SetItem
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.operators import ArrayFunction, GetItem, Stack
from glow_dialects.fn.primitives.records import Field
from glow_dialects.fn.primitives.shapes import FittingElement
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.lists import replaced
from glow_frontends.python.masks import masked, picked, refused, stored
from glow_frontends.python.numpy_names import as_array

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Env, Expressions


def subscript(c: Expressions, node: ast.Subscript, env: Env) -> Value:
    """The value of `x[...]`."""
    whole = c.expression(node.value, env)
    if masked(whole) is not None:
        refused(c, node)
    if isinstance(node.slice, ast.Slice):
        items = c.items(whole, node)
        numbers: list[SSAValue] = []
        entry = _entry(c, node.slice, env, numbers)
        if items is not None and not numbers:
            bounds = [int(b) if b else None for b in entry.data.split(":")]  # pyright: ignore
            return c.tuple(*[c.ssa(v, node) for v in items[slice(*bounds)]])
        return c.prim(GetItem, c.ssa(whole, node), *numbers, key=ArrayAttr([entry]))
    single = isinstance(node.slice, ast.Constant) and node.slice.value in (None, Ellipsis)
    if isinstance(node.slice, ast.Tuple) or single:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        numbers = []
        key = [_place(c, part, env, numbers) for part in parts]
        return c.prim(GetItem, c.ssa(whole, node), *numbers, key=ArrayAttr(key))
    index = c.expression(node.slice, env)
    if isinstance(index, Static) and isinstance(index.value, list | np.ndarray):
        index = Static(np.asarray(index.value))
    if isinstance(index, Static):
        known = _known_item(c, node, whole, index.value)
        if known is not None:
            return known
    axes = _axes(c, node.slice, index, env)
    if axes is not None:
        numbers = []
        key = [_given(c, node, v, numbers) for v in axes]
        return c.prim(GetItem, c.ssa(whole, node), *numbers, key=ArrayAttr(key))
    if isinstance(node.slice, ast.List | ast.ListComp):
        index = as_array(c, node.slice, index)
    whole, place = c.ssa(whole, node), c.ssa(index, node)
    choice = picked(c, whole, place)
    if choice is not None:
        return choice
    item = c.prim(Item, whole, place)
    if isinstance(node.slice, ast.Name) and node.slice.id in c.arguments:
        c.picks[item] = whole, place
    return item


def _known_item(c: Expressions, node: ast.Subscript, whole: Value, index: Any) -> Value | None:
    """The entry of a dict, the field, or the item of a tuple; None where the run has to pick it."""
    if isinstance(whole, Static) and isinstance(whole.value, dict):
        if index not in whole.value:
            c.fail(node, f"there is no key {index!r}")
        return Static(whole.value[index])
    if isinstance(index, str):
        return c.prim(Field, c.ssa(whole, node), field=StringAttr(index))
    if not isinstance(index, int):
        return None
    items = c.items(whole, node)
    if items is not None:
        if not -len(items) <= index < len(items):
            c.fail(node, f"index {index} of a tuple of {len(items)}")
        return items[index]
    return Static(whole.value[index]) if isinstance(whole, Static) else None


def _axes(c: Expressions, index: ast.expr, value: Value, env: Env) -> list[Value] | None:
    """The indices of a tuple that an expression gives, such as np.ix_: lists, which pick rows, are none."""
    numpy = False
    if isinstance(index, ast.Call):
        called = c.expression(index.func, env)
        numpy = isinstance(called, Static) and str(getattr(called.value, "__module__", "")).startswith(
            "numpy"
        )
    written = isinstance(value, Static) and isinstance(value.value, tuple)
    return c.items(value, index) if numpy or written else None


def _given(c: Expressions, node: ast.AST, value: Value, values: list[SSAValue]) -> Attribute:
    """One axis of a key by its value: a number or None that is known, else an operand from 1 on."""
    if isinstance(value, Static) and isinstance(value.value, int | None):
        return StringAttr("new") if value.value is None else IntegerAttr(value.value, i64)
    values.append(as_array(c, node, value))
    return StringAttr(f"${len(values)}")


def _place(c: Expressions, part: ast.expr, env: Env, values: list[SSAValue]) -> Attribute:
    """One axis of a key; entries unknown at compile time go to `values`, which are operands from 1 on."""
    if _fixed(c, part, env):
        return _entry(c, part, env, values)
    values.append(as_array(c, part, c.expression(part, env)))
    return StringAttr(f"${len(values)}")


def assigned_item(c: Expressions, target: ast.Subscript, whole: SSAValue, value: Value, env: Env) -> SSAValue:
    """`whole` with `value` where `target` points: `x[i] = v`, `x[i, 1:] = v`, `x[mask] = v`."""
    index = target.slice
    changed = replaced(c, target, whole, value, env)
    if changed is not None:
        return c.ssa(changed, target)
    if not isinstance(index, ast.Slice | ast.Tuple) and not _is_ellipsis(index):
        place = c.expression(index, env)
        axes = _axes(c, index, place, env)
        if axes is not None:
            numbers = [_elements(c, target, value, whole)]
            key = [_given(c, target, v, numbers) for v in axes]
            return c.prim(ArrayFunction("setitem"), whole, *numbers, key=ArrayAttr(key))
        if isinstance(place, Static) and isinstance(place.value, str):
            return c.prim(SetField, whole, whole, c.ssa(value, target), field=StringAttr(place.value))
        some = masked(value)
        if some is not None:
            return stored(c, target, whole, place, some)
        return c.prim(SetItem, whole, as_array(c, index, place), c.ssa(value, target))
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    numbers = [_elements(c, target, value, whole)]
    key = [_place(c, part, env, numbers) for part in parts]
    return c.prim(ArrayFunction("setitem"), whole, *numbers, key=ArrayAttr(key))


def _elements(c: Expressions, node: ast.AST, value: Value, whole: SSAValue) -> SSAValue:
    """A value, or the items of a list of numbers, that become elements of an array: it must hold them."""
    items = None if isinstance(value, Static) and _small(value.value) else c.items(value, node)
    if not items:
        return as_array(c, node, value)
    rows = [_elements(c, node, v, whole) for v in items]
    rows = [c.prim(FittingElement, row, whole) for row in rows]
    return c.prim(Stack, *rows, axis=to_attribute(0))


def _small(value: object) -> bool:
    """Whether every type holds the numbers of a list."""
    if not isinstance(value, list | tuple | range) or not all(isinstance(v, int) for v in value):
        return False
    return not value or (min(value) >= 0 and max(value) < 128)


def _fixed(c: Expressions, part: ast.expr, env: Env) -> bool:
    if isinstance(part, ast.Slice) or _is_ellipsis(part):
        return True
    if isinstance(part, ast.Name | ast.Constant | ast.UnaryOp | ast.Attribute):
        value = c.expression(part, env)
        return isinstance(value, Static) and isinstance(value.value, int | None)
    return False


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is Ellipsis


def _bound(c: Expressions, part: ast.expr | None, env: Env, numbers: list[SSAValue]) -> str:
    """A bound of a slice: nothing, a number, or `$k` for a further argument k that the types tell."""
    if part is None:
        return ""
    value = c.expression(part, env)
    if isinstance(value, Static):
        if not isinstance(value.value, int | None):
            c.fail(part, f"a bound of a slice cannot be {value.value!r}", "use ints")
        return "" if value.value is None else str(int(value.value))
    numbers.append(c.ssa(value, part))
    return f"${len(numbers)}"


def _entry(c: Expressions, part: ast.expr, env: Env, numbers: list[SSAValue]) -> Attribute:
    """One axis of a key: `a:b:c`, a number, `new` or `...`; bounds not known yet go to `numbers`."""
    if isinstance(part, ast.Slice):
        return StringAttr(":".join(_bound(c, p, env, numbers) for p in (part.lower, part.upper, part.step)))
    if _is_ellipsis(part):
        return StringAttr("...")
    value = c.expression(part, env)
    assert isinstance(value, Static)
    if value.value is None:
        return StringAttr("new")
    if not isinstance(value.value, int):
        c.fail(part, f"an index cannot be {value.value!r}", "use numbers and slices")
    return IntegerAttr(value.value, i64)
