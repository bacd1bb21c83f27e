"""Arrays selected by masks, `x[x > 0]`: their length is unknown, but reductions of them are computed.

Such a value is the whole array beside its mask. Arithmetic is done on all elements; sums and their like leave
out the others. Elements that are not picked count as 1 meanwhile, so that no gradient flows from them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import PrimOp, TupleOp
from glow_dialects.fn.primitive import options_of
from glow_dialects.fn.primitives.arithmetic import Add, Div, FloorDiv, Mul, Not, Sub, ToBool, ToFloat
from glow_dialects.fn.primitives.assignment import SetItem
from glow_dialects.fn.primitives.compare import BitAnd, BitOr, BitXor, Gt, Invert
from glow_dialects.fn.primitives.cotangents import StopGradient
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.mathematics import FUNCTIONS
from glow_dialects.fn.primitives.operators import ArrayFunction, Operator
from glow_dialects.fn.primitives.records import Field, IsInstance, Raise
from glow_dialects.fn.primitives.scalars import Predicate, ScalarPrimitive
from glow_dialects.fn.primitives.shapes import AstypeAs
from glow_dialects.ops import numpy_operators
from glow_frontends.python.emit import Static, Value

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions

#: Primitives whose results pick elements, where they are subscripts.
_MASKS = (Predicate, Invert, BitAnd, BitOr, BitXor)


@dataclass(frozen=True)
class Masked:
    """Elements that a mask picks: `data` is the array; `plain` is the subscript, if nothing was done."""

    data: SSAValue
    mask: SSAValue
    plain: tuple[SSAValue, SSAValue] | None = None


Reduction = Callable[["Expressions", Masked], SSAValue]


def masked(value: Value) -> Masked | None:
    """The value as elements that a mask picks, if it is that."""
    return value.value if isinstance(value, Static) and isinstance(value.value, Masked) else None


def picked(c: Expressions, whole: SSAValue, index: SSAValue) -> Value | None:
    """`whole[index]` where the index is seen to be a mask; None otherwise."""
    owner = index.owner
    seen = isinstance(owner, PrimOp) and isinstance(owner.card, _MASKS) and owner.card != ToBool()
    if not seen or isinstance(whole.owner, TupleOp):
        return None
    return Static(Masked(whole, index, (whole, index)))


def stored(c: Expressions, node: ast.AST, whole: SSAValue, index: Value, value: Masked) -> SSAValue:
    """`whole` after `whole[mask] = value`, where value is what the same mask picks."""
    if not isinstance(index, SSAValue) or not _same(index, value.mask):
        refused(c, node)
    rest = c.prim(SetItem, whole, index, c.constant(0))
    sum_of_items = c.prim(Add, rest, _filled(c, _safe(c, value), index, c.constant(0)))
    return c.prim(AstypeAs, sum_of_items, c.prim(Field, whole, field=StringAttr("dtype")))


def refused(c: Expressions, node: ast.AST) -> NoReturn:
    """Raise where the elements themselves are needed."""
    c.fail(
        node,
        "an array selected by a mask has no shape known at compile time",
        f"use np.where, arithmetic, and {', '.join(REDUCTIONS)} of all its elements",
    )


def _safe(c: Expressions, m: Masked) -> SSAValue:
    """The array with 1 where the mask does not pick."""
    return m.data if m.plain is None else _filled(c, m.data, m.mask, c.constant(1))


def _filled(c: Expressions, data: SSAValue, mask: SSAValue, value: SSAValue) -> SSAValue:
    return c.prim(SetItem, data, c.prim(Not, mask), value)


def perhaps(
    c: Expressions, node: ast.AST, value: Value, reduction: Reduction, plain: Callable[[SSAValue], Value]
) -> Value | None:
    """A reduction of `x[m]`, or of arithmetic of it, where the types tell whether the parameter m is a mask.

    None where there is no such parameter; `plain` is the reduction where it is no mask.
    """
    index = _picker(c, value) if isinstance(value, SSAValue) else None
    if index is None or not isinstance(value, SSAValue):
        return None

    def of_mask(_: list[SSAValue]) -> SSAValue:
        data = _again(c, value, lambda whole: _filled(c, whole, index, c.constant(1)))
        return reduction(c, Masked(data, index))

    def of_rows(_: list[SSAValue]) -> SSAValue:
        return c.ssa(plain(_again(c, value, lambda whole: c.prim(Item, whole, index))), node)

    mask = c.prim(IsInstance, index, kinds=ArrayAttr([StringAttr("mask")]))
    return c.choose(mask, of_mask, of_rows)


def _picker(c: Expressions, value: SSAValue) -> SSAValue | None:
    """The one parameter that picks the elements of which a value is computed."""
    if value in c.picks:
        return c.picks[value][1]
    owner = value.owner
    if not isinstance(owner, PrimOp) or not isinstance(owner.card, ScalarPrimitive):
        return None
    pickers = {_picker(c, v) for v in owner.operands} - {None}
    return pickers.pop() if len(pickers) == 1 else None


def _again(c: Expressions, value: SSAValue, leaf: Callable[[SSAValue], SSAValue]) -> SSAValue:
    """The value computed once more, with `leaf` of each array that is picked from."""
    if value in c.picks:
        return leaf(c.picks[value][0])
    if _picker(c, value) is None:
        return value
    owner = value.owner
    assert isinstance(owner, PrimOp)
    return c.prim(owner.card, *[_again(c, v, leaf) for v in owner.operands])


def elementwise(c: Expressions, node: ast.AST, values: list[Value], make: Callable[..., Value]) -> Value:
    """A function of each element: `make` of the whole arrays."""
    masks = [m for m in map(masked, values) if m is not None]
    if not all(_same(m.mask, masks[0].mask) for m in masks):
        c.fail(node, "arithmetic of arrays picked by different masks", "use one mask, or np.where")
    whole = [_safe(c, m) if (m := masked(v)) is not None else v for v in values]
    return Static(Masked(c.ssa(make(*whole), node), masks[0].mask))


def _same(a: SSAValue, b: SSAValue) -> bool:
    """Whether two masks are computed in the same way from the same values."""
    one, other = a.owner, b.owner
    if a is b or not isinstance(one, PrimOp) or not isinstance(other, PrimOp):
        return a is b or _constant(a) is not None and _constant(a) == _constant(b)
    if one.prim != other.prim or options_of(one) != options_of(other):
        return False
    if len(one.operands) != len(other.operands):
        return False
    return all(_same(x, y) for x, y in zip(one.operands, other.operands, strict=True))


def _constant(value: SSAValue) -> Any:
    return getattr(value.owner, "value", None)


def _size(c: Expressions, m: Masked) -> SSAValue:
    """How many elements are picked."""
    size = {"field": StringAttr("size")}
    rows = c.prim(FloorDiv, c.prim(Field, m.data, **size), c.prim(Field, m.mask, **size))
    return c.prim(Mul, length(c, m), rows)


def length(c: Expressions, m: Masked) -> SSAValue:
    """How many places of the mask are picked."""
    return c.prim(ArrayFunction("count_nonzero"), m.mask)


def _sum(c: Expressions, m: Masked) -> SSAValue:
    return c.prim(Operator("reduce_sum"), _filled(c, m.data, m.mask, c.constant(0)))


def _mean(c: Expressions, m: Masked) -> SSAValue:
    return c.prim(Div, _sum(c, m), c.prim(ToFloat, _size(c, m)))


def _var(c: Expressions, m: Masked) -> SSAValue:
    d = c.prim(Sub, _safe(c, m), _mean(c, m))
    return _mean(c, Masked(c.prim(Mul, d, d), m.mask))


def _std(c: Expressions, m: Masked) -> SSAValue:
    return c.prim(FUNCTIONS["sqrt"], _var(c, m))


def _norm(c: Expressions, m: Masked) -> SSAValue:
    data = _safe(c, m)
    return c.prim(FUNCTIONS["sqrt"], _sum(c, Masked(c.prim(Mul, data, data), m.mask)))


def _prod(c: Expressions, m: Masked) -> SSAValue:
    return c.prim(Operator("reduce_prod"), _filled(c, m.data, m.mask, c.constant(1)))


def _extreme(kind: str, other: str) -> Callable[[Expressions, Masked], SSAValue]:
    def make(c: Expressions, m: Masked) -> SSAValue:
        text = f"zero-size array to reduction operation {kind}imum which has no identity"
        options = {"kind": StringAttr("ValueError"), "message": StringAttr(text)}

        def extreme(_: list[SSAValue]) -> SSAValue:
            data = _safe(c, m)
            far = c.prim(StopGradient, c.prim(Operator(f"reduce_{other}"), data))
            return c.prim(Operator(f"reduce_{kind}"), _filled(c, data, m.mask, far))

        some = c.prim(Gt, length(c, m), c.constant(0))
        return c.choose(some, extreme, lambda _: c.prim(Raise, **options))

    return make


def _any(c: Expressions, m: Masked) -> SSAValue:
    return c.prim(ArrayFunction("any"), _filled(c, m.data, m.mask, c.constant(0)))


def _all(c: Expressions, m: Masked) -> SSAValue:
    return c.prim(ArrayFunction("all"), _filled(c, m.data, m.mask, c.constant(1)))


REDUCTIONS: dict[str, Reduction] = {
    "sum": _sum, "mean": _mean, "max": _extreme("max", "min"), "min": _extreme("min", "max"), "prod": _prod,
    "var": _var, "std": _std, "any": _any, "all": _all,
}  # fmt: skip
CALLED: dict[Any, Reduction] = {
    **{getattr(np, name): make for name, make in REDUCTIONS.items()},
    sum: _sum, max: REDUCTIONS["max"], min: REDUCTIONS["min"], any: _any, all: _all,
    np.linalg.norm: _norm, len: length, np.size: _size,
}  # fmt: skip


def called(
    c: Expressions, node: ast.AST, thing: Any, values: list[Value], keywords: dict[str, Value], make: Any
) -> Value:
    """A function of masked elements; `make` calls it with other values."""
    m = masked(values[0])
    reduction = CALLED.get(thing) if getattr(thing, "__hash__", None) else None
    if m is not None and reduction is not None and len(values) == 1 and not keywords:
        return reduction(c, m)
    if thing is np.dot and len(values) == 2 and all(masked(v) for v in values):
        product = masked(elementwise(c, node, values, lambda a, b: c.prim(Mul, a, b)))
        assert product is not None
        return _sum(c, product)
    if (thing is abs or thing in numpy_operators()) and not keywords:
        return elementwise(c, node, values, make)
    refused(c, node)


def method(c: Expressions, node: ast.AST, m: Masked, name: str, count: int) -> Value:
    """A method of masked elements, called with `count` arguments."""
    if name not in REDUCTIONS or count:
        refused(c, node)
    return REDUCTIONS[name](c, m)


def attribute(c: Expressions, node: ast.AST, m: Masked, name: str) -> Value:
    """An attribute of masked elements."""
    if name != "size":
        refused(c, node)
    return _size(c, m)
