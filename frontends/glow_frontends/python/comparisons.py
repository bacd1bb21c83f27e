"""Comparisons, decided at compile time where the values are known."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_python
from glow_dialects.fn.dialect import ConstantOp, TupleOp
from glow_dialects.fn.primitives.arithmetic import Not
from glow_dialects.fn.primitives.compare import Eq
from glow_dialects.fn.primitives.records import HasKey, IsInstance
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.folding import COMPARE, folded

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Env, Expressions

Rest = list[tuple[ast.cmpop, ast.expr]]


def compare(c: Expressions, node: ast.Compare, env: Env) -> Value:
    """The value of a comparison, or of several in a row."""
    left = c.expression(node.left, env)
    return _chain(c, left, list(zip(node.ops, node.comparators, strict=True)), node, env)


def _chain(c: Expressions, left: Value, rest: Rest, node: ast.Compare, env: Env) -> Value:
    operation, expression = rest[0]
    right = c.expression(expression, env)
    first = _one(c, operation, left, right, node)
    if len(rest) == 1:
        return first
    if isinstance(first, Static):
        return _chain(c, right, rest[1:], node, env) if first.value else first
    c.unconditional(rest[1][1])

    def more(_: list[SSAValue]) -> SSAValue:
        return c.ssa(_chain(c, right, rest[1:], node, dict(env)), node)

    return c.choose(first, more, lambda _: c.constant(False))


def _one(c: Expressions, operation: ast.cmpop, left: Value, right: Value, node: ast.Compare) -> Value:
    match operation:
        case ast.Is() | ast.IsNot():
            return _same_object(c, left, right, isinstance(operation, ast.Is), node)
        case ast.In():
            return _contained(c, left, right, node)
        case ast.NotIn():
            contained = _contained(c, left, right, node)
            return Static(not contained.value) if isinstance(contained, Static) else c.prim(Not, contained)
        case _:
            card = COMPARE[type(operation)]
            a, b = known(c, left), known(c, right)
            now = None if a is None or b is None else folded(card, a.value, b.value)
            return now or c.prim(card, c.ssa(left, node), c.ssa(right, node))


def _same_object(c: Expressions, left: Value, right: Value, same: bool, node: ast.Compare) -> Value:
    if isinstance(left, Static) and isinstance(right, Static):
        return Static((left.value is right.value) == same)
    if isinstance(right, Static) and right.value is None:
        if isinstance(left, Static):
            return Static(not same)
        none = c.prim(IsInstance, left, kinds=ArrayAttr([StringAttr("NoneType")]))
        return none if same else c.prim(Not, none)
    c.fail(node, "'is' compares identities of Python objects", "use ==")


def _contained(c: Expressions, left: Value, right: Value, node: ast.Compare) -> Value:
    a = known(c, left)
    text = a.value if a is not None and isinstance(a.value, str) else None
    if text is not None and isinstance(right, Static) and isinstance(right.value, str):
        return Static(text in right.value)
    items = c.items(right, node)
    if items is None and text is not None:
        return c.prim(HasKey, c.ssa(right, node), c.ssa(left, node))
    if items is None:
        c.unknown_length(node, "'in'", "compare the items one by one")
    test: SSAValue | None = None
    for item in items:
        b = known(c, item)
        now = None if a is None or b is None else folded(Eq, a.value, b.value)
        if now is not None and now.value:
            return now
        if now is None:
            same = c.prim(Eq, c.ssa(left, node), c.ssa(item, node))
            test = same if test is None else c.switch(test, test, same)
    return Static(False) if test is None else test


def known(c: Expressions, value: Value) -> Static | None:
    """A value whose parts are all known when compiling, as the Python object that it is; None for others."""
    if isinstance(value, Static):
        return value
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr | FloatAttr | StringAttr):
        return Static(to_python(owner.value))
    if not isinstance(owner, TupleOp) or "names" in owner.attributes:
        return None
    items = [known(c, v) for v in owner.values]
    return Static(tuple(i.value for i in items if i is not None)) if None not in items else None
