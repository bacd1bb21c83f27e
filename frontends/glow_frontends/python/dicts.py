"""Methods of dicts, for literal dicts and for dicts known by type."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import TupleOp
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.records import HasKey, Keys, Values, Zip
from glow_frontends.python.emit import Static, Value

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions

Method = Callable[["Expressions", ast.AST, list[Value], dict[str, Value]], Value]


def _plain(c: Expressions, node: ast.AST, values: list[Value], keywords: dict[str, Value]) -> SSAValue:
    if len(values) != 1 or keywords:
        c.fail(node, "this method of a dict takes no arguments")
    return c.ssa(values[0], node)


def _keys(c: Expressions, node: ast.AST, values: list[Value], keywords: dict[str, Value]) -> SSAValue:
    whole = _plain(c, node, values, keywords)
    known = c.items(whole, node) if whole in c.fields else None
    return c.prim(Keys, whole) if known is None else c.tuple(*[c.ssa(k, node) for k in known])


def _values(c: Expressions, node: ast.AST, values: list[Value], keywords: dict[str, Value]) -> SSAValue:
    whole = _plain(c, node, values, keywords)
    owner = whole.owner
    return c.tuple(*owner.values) if isinstance(owner, TupleOp) else c.prim(Values, whole)


def _items(c: Expressions, node: ast.AST, values: list[Value], keywords: dict[str, Value]) -> SSAValue:
    keys, values_of_dict = _keys(c, node, values, keywords), _values(c, node, values, keywords)
    if isinstance(keys.owner, TupleOp) and isinstance(values_of_dict.owner, TupleOp):
        pairs = zip(keys.owner.values, values_of_dict.owner.values, strict=True)
        return c.tuple(*[c.tuple(k, v) for k, v in pairs])
    return c.prim(Zip, c.tuple(keys, values_of_dict))


def _get(c: Expressions, node: ast.AST, values: list[Value], keywords: dict[str, Value]) -> SSAValue:
    if keywords or not 2 <= len(values) <= 3:
        c.fail(node, "get takes a key and a default value")
    whole, key = (c.ssa(v, node) for v in values[:2])
    other = values[2] if len(values) > 2 else Static(None)

    def present(_: list[SSAValue]) -> SSAValue:
        return c.prim(Item, whole, key)

    return c.choose(c.prim(HasKey, whole, key), present, lambda _: c.ssa(other, node))


DICT_METHODS: dict[str, Method] = {"keys": _keys, "values": _values, "items": _items, "get": _get}
