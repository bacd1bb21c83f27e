"""NumPy's functions of arrays: which primitive each is, and how its arguments become arrays and options."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.fn.array_functions.signatures import COUNT, MAKERS, signature
from glow_dialects.fn.dialect import CallOp, PrimOp
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.primitive import Card
from glow_dialects.fn.primitives.arithmetic import Not, ToBool
from glow_dialects.fn.primitives.compare import BitAnd, BitOr, BitXor, ClipHigh, ClipLow, Where
from glow_dialects.fn.primitives.operators import ArrayFunction, Stack
from glow_dialects.fn.primitives.scalars import UFUNC, Predicate, ScalarPrimitive
from glow_dialects.fn.primitives.tuples import ToArray
from glow_frontends.python.calls import Handler, Keywords, evaluated
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.hints import refusal

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions

#: Options whose default is as good as leaving them out, so that they may be given with these values.
_IDLE: dict[str, tuple[Any, ...]] = {
    "out": (None,), "order": ("C", "K", None), "copy": (True, None), "kind": (None, "stable"),
    "subok": (True, False), "like": (None,), "interpolation": ("linear",), "method": ("linear",),
    "optimize": (True, False),
}  # fmt: skip


#: Functions along the last axis if no axis is given, and of all elements if it is None.
_LAST_AXIS = ("sort", "argsort", "take_along_axis")


def as_array(c: Expressions, node: ast.AST, value: Value) -> SSAValue:
    """A value as an array: tuples and lists are stacked."""
    if isinstance(value, Static):
        if isinstance(value.value, tuple | list | range):
            return c.constant(_plain(c, node, value.value))
        return c.ssa(value, node)
    items = c.items(value, node)
    if items is not None:
        return c.prim(Stack, *[as_array(c, node, v) for v in items], axis=to_attribute(0))
    owner = value.owner
    mapped = isinstance(owner, CallOp) and isinstance(owner.callee.owner, OverOp)
    return c.prim(ToArray, value) if mapped else value


def _plain(c: Expressions, node: ast.AST, value: Any) -> Any:
    try:
        array = np.array(value)
    except ValueError:
        c.fail(node, "rows of different lengths are not an array", "make them equal")
    if array.dtype == object:
        c.fail(node, "an array of Python objects cannot be compiled", "use numbers")
    return array


class _Options:
    """The options of a call as attributes; numbers that only types tell become operands behind the arrays."""

    def __init__(self, c: Expressions, node: ast.AST, arrays: list[SSAValue]) -> None:
        self.c, self.node = c, node
        self.operands = list(arrays)
        self.count = len(arrays)

    def attribute(self, name: str, value: Value) -> Attribute:
        """One option."""
        if isinstance(value, Static):
            return self._static(name, value.value)
        items = self.c.items(value, self.node)
        if items is None and isinstance(value.owner, PrimOp) and isinstance(value.owner.card, Stack):
            items = list(value.owner.operands)  # an array that is written out
        if items is not None:
            return ArrayAttr([self.attribute(name, v) for v in items])
        known = self.c.known_now(value)
        if isinstance(known, Static):
            return self._static(name, known.value)
        self.operands.append(value)
        return StringAttr(f"${len(self.operands) - 1}")

    def _static(self, name: str, value: Any) -> Attribute:
        if name == "dtype":
            return StringAttr(np.dtype(value).name)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, tuple | list | range):
            return ArrayAttr([self._static(name, v) for v in value])
        try:
            return to_attribute(value)
        except TypeError:
            self.c.fail(self.node, f"'{name}' cannot be {value!r}", "use numbers and texts")


def call_function(
    c: Expressions, node: ast.AST, name: str, values: list[Value], keywords: Keywords
) -> SSAValue:
    """The primitive of a function of arrays."""
    known = signature(name)
    assert known is not None, name
    first = ("arrays",) if known.many else known.arrays
    places = [*first, *known.options]
    if len(values) > len(places):
        c.fail(
            node, f"np.{name} takes {len(places)} arguments, got {len(values)}", f"use {', '.join(places)}"
        )
    arguments = dict(zip(places, values, strict=False))
    for key, value in keywords.items():
        if key in _IDLE and isinstance(value, Static) and value.value in _IDLE[key]:
            continue
        if key not in places:
            c.fail(node, f"the argument '{key}' cannot be compiled", f"use {', '.join(places)}")
        arguments[key] = value
    if name in _LAST_AXIS:
        arguments.setdefault("axis", Static(-1))
    missing = [a for a in first if a not in arguments]
    if missing:
        c.fail(node, f"np.{name} needs {' and '.join(missing)}")
    if known.many:
        items = c.items(arguments["arrays"], node)
        if items is None:
            c.unknown_length(node, f"np.{name}", "write the arrays out")
        arrays = [as_array(c, node, v) for v in items]
    else:
        arrays = [as_array(c, node, arguments[a]) for a in first]
    options = _Options(c, node, arrays)
    attributes: dict[str, Attribute] = {}
    for key in known.options:
        value = arguments.get(key)
        if value is not None and not (isinstance(value, Static) and value.value is None):
            attributes[key] = options.attribute(key, value)
    if len(options.operands) > options.count:
        attributes[COUNT] = IntegerAttr(options.count, i64)
    return c.prim(ArrayFunction(name), *options.operands, **attributes)


def function(name: str, thing: Any = None) -> Handler:
    """The handler of a function of arrays; `thing` itself is called where all is known."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        known = None if thing is None else evaluated(thing, values, keywords)
        if known is not None:
            return known
        return call_function(c, node, name, values, keywords)

    return handle


def _clip(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """np.clip, whose bounds may be None."""
    short = {"min": "a_min", "max": "a_max"}
    arguments = dict(zip(("a", "a_min", "a_max"), values, strict=False))
    arguments |= {short.get(n, n): v for n, v in keywords.items()}
    if "a" not in arguments or arguments.keys() - {"a", "a_min", "a_max"}:
        c.fail(node, "np.clip takes an array and two bounds")
    clipped = as_array(c, node, arguments["a"])
    for name, card in (("a_min", ClipLow), ("a_max", ClipHigh)):
        bound = arguments.get(name, Static(None))
        if not (isinstance(bound, Static) and bound.value is None):
            clipped = c.prim(card, clipped, c.ssa(bound, node))
    return clipped


def _einsum(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """np.einsum of a text and arrays."""
    if not values or not isinstance(values[0], Static) or not isinstance(values[0].value, str):
        c.fail(node, "the subscripts of einsum must be known at compile time", "write it out")
    arrays = c.tuple(*[as_array(c, node, v) for v in values[1:]])
    return call_function(c, node, "einsum", [arrays, values[0]], keywords)


def _where(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    if len(values) != 3 or keywords:
        c.fail(node, *refusal(np.nonzero, "np.where of a condition alone"))
    return c.prim(Where, *[as_array(c, node, v) for v in values])


def _truth(card: type[ScalarPrimitive], name: str) -> Handler:
    """np.logical_and and its like: of the truth of both."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        operands = [c.prim(ToBool, as_array(c, node, v)) for v in values]
        if len(operands) != card.arity or keywords:
            c.fail(node, f"{name} takes {card.arity} array{'s' * (card.arity != 1)}")
        return c.prim(card, *operands)

    return handle


def pointwise(card: Card, count: int) -> Handler:
    """A function of each element; lists are arrays."""
    primitive = card() if isinstance(card, type) else card
    name = primitive.short
    own = isinstance(primitive, ScalarPrimitive) and not isinstance(primitive, Predicate)
    options: dict[str, Attribute] = {UFUNC: UnitAttr()} if own else {}

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        if len(values) != count or keywords:
            count_of_values = len(values) + len(keywords)
            c.fail(node, f"{name} takes {count} argument{'s' * (count > 1)}, got {count_of_values}")
        return c.prim(card, *[as_array(c, node, v) for v in values], **options)

    return handle


#: Functions that are not NumPy's own of that name: those of another module, and those with a handler below.
_ELSEWHERE = {"norm": np.linalg.norm} | dict.fromkeys(
    ("concatenate", "einsum", "insert", "max", "meshgrid", "min", "prod", "sum")
)


def _named() -> dict[Any, Handler]:
    table: dict[Any, Handler] = {}
    for name in MAKERS:
        thing = _ELSEWHERE.get(name, getattr(np, name, None))
        if thing is not None:
            table[thing] = function(name, thing)
    table[np.identity] = function("eye", np.identity)
    for alias, name in (
        ("row_stack", "vstack"),
        ("around", "round"),
    ):
        if getattr(np, alias, None) is not None:
            table[getattr(np, alias)] = function(name)
    return table


NUMPY: dict[Any, Handler] = {
    **_named(),
    np.clip: _clip, np.where: _where, np.einsum: _einsum,
    np.logical_and: _truth(BitAnd, "np.logical_and"), np.logical_or: _truth(BitOr, "np.logical_or"),
    np.logical_xor: _truth(BitXor, "np.logical_xor"), np.logical_not: _truth(Not, "np.logical_not"),
}  # fmt: skip

#: Methods of arrays that are functions of arrays.
METHODS: dict[str, Handler] = {
    name: function(name)
    for name in (
        "all", "any", "argmax", "argmin", "argsort", "cumprod", "cumsum", "diagonal", "dot", "mean", "ptp",
        "ravel", "repeat", "squeeze", "std", "swapaxes", "take", "trace", "var",
    )
} | {"flatten": function("ravel"), "clip": _clip}  # fmt: skip
