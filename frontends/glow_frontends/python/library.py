"""Built-in functions, `math` and NumPy as primitives, and the methods of arrays."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.fn.primitive import Card, Primitive
from glow_dialects.fn.primitives import PRIMITIVES
from glow_dialects.fn.primitives.arithmetic import Add, Div, ToFloat
from glow_dialects.fn.primitives.compare import PythonMax, PythonMin
from glow_dialects.fn.primitives.cotangents import BroadcastLike
from glow_dialects.fn.primitives.numbers import CARDS, NumberFunction, number_function
from glow_dialects.fn.primitives.operators import Operator, Stack
from glow_dialects.fn.primitives.records import IsInstance, MakeDict, Zip
from glow_dialects.fn.primitives.shapes import Astype, AstypeAs, Fitting, Full, Reshape
from glow_dialects.fn.primitives.tuples import Copy, Len, SumItems, ToArray, ToTuple
from glow_frontends.python.calls import Keywords, apply_value, static_attribute
from glow_frontends.python.comparisons import known
from glow_frontends.python.dicts import DICT_METHODS
from glow_frontends.python.emit import Static, Value
from glow_frontends.python.hints import refusal
from glow_frontends.python.lists import ASKING, extreme, sorted_items
from glow_frontends.python.math_written import round_digits
from glow_frontends.python.numpy_names import METHODS, NUMPY, as_array, call_function, pointwise
from glow_frontends.python.numpy_structures import STRUCTURES
from glow_frontends.python.numpy_written import real
from glow_frontends.python.statement_names import CHANGING

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions

Handler = Callable[["Expressions", ast.AST, list[Value], Keywords], Value]


def _takes(least: int, most: int | None, *names: str) -> Callable[[Handler], Handler]:
    """A handler of `least` to `most` arguments by position, and of the keywords `names`."""

    def refusing_others(handler: Handler) -> Handler:
        def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
            for name in keywords.keys() - set(names):
                hint = f"use {' and '.join(names)}" if names else "leave it out"
                c.fail(node, f"the argument '{name}' cannot be compiled", hint)
            if len(values) < least or (most is not None and len(values) > most):
                wanted = (
                    str(least)
                    if least == most
                    else f"{least} or more"
                    if most is None
                    else f"{least} to {most}"
                )
                c.fail(node, f"{len(values)} arguments by position, expected {wanted}")
            return handler(c, node, values, keywords)

        return handle

    return refusing_others


def _ssa(c: Expressions, node: ast.AST, values: list[Value]) -> list[SSAValue]:
    return [c.ssa(v, node) for v in values]


def _prim(card: Card, count: int) -> Handler:
    name = (card() if isinstance(card, type) else card).short

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        if len(values) != count or keywords:
            count_of_values = len(values) + len(keywords)
            c.fail(node, f"{name} takes {count} argument{'s' * (count > 1)}, got {count_of_values}")
        return c.prim(card, *_ssa(c, node, values))

    return handle


def _of_cards() -> dict[Any, Handler]:
    """The functions of Python and NumPy that the cards of primitives name."""
    pairs = [(f, card) for card in PRIMITIVES for f in card.called]
    of_numpy = {f: pointwise(c, c.arity or 1) for f, c in pairs if getattr(np, f.__name__, None) is f}
    others = {f: _prim(c, c.arity or 1) for f, c in pairs if f not in of_numpy}
    return (
        of_numpy | others | {f: _prim(number_function(f) or c, c.arity or 1) for f, c in pairs if f in CARDS}
    )


def _chain(c: Expressions, card: Card, node: ast.AST, values: Sequence[Value]) -> Value:
    """A primitive of two values over several, from the left."""
    result = values[0]
    for value in values[1:]:
        result = c.prim(card, c.ssa(result, node), c.ssa(value, node))
    return result


def _fold(card: type[Primitive]) -> Handler:
    """max, min: of several values or of the items of a tuple of known length."""
    name = card().short

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        if len(values) == 1:
            items = c.items(values[0], node)
            if items is None and not keywords:
                two = c.function(name, ("a", "b"), lambda v: c.prim(card, v[0], v[1]))
                return c.over("reduce", c.ssa(values[0], node), two)
            if items is None:
                c.unknown_length(node, f"{name} with {' and '.join(keywords)}")
            values = items
        if not values or keywords:
            return extreme(name, c, node, values, keywords)
        return _chain(c, card, node, values)

    return handle


@_takes(1, 2, "start")
def _sum(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    items = c.items(values[0], node)
    start = keywords.get("start", values[1] if len(values) > 1 else Static(0))
    if items is None:
        total = c.prim(SumItems, c.ssa(values[0], node))
        plain = isinstance(start, Static) and start.value == 0
        return total if plain else c.binary(Add, start, total, node)
    return _chain(c, Add, node, [start, *items])


@_takes(1, 1, "key", "reverse")
def _sorted(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    items = c.items(values[0], node)
    if items is None:
        c.fail(node, "sorted needs a sequence of known length", "use np.sort of an array")
    return c.tuple(*_ssa(c, node, sorted_items(c, node, items, keywords)))


@_takes(2, None)
def _map(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    function, *sources = values
    items = [c.items(s, node) for s in sources]
    if len(items) == 1 and items[0] is None:
        return c.over("map", c.ssa(sources[0], node), c.ssa(function, node))
    if any(i is None for i in items):
        rows, count = _zip(c, node, sources, {}), len(sources)

        def called(values: list[SSAValue]) -> SSAValue:
            arguments: list[Value] = [c.get(values[0], i) for i in range(count)]
            return c.ssa(apply_value(c, node, function, arguments, {}), node)

        return c.over("map", c.ssa(rows, node), c.function(f"{c.name}.row", ("row",), called))
    lists = [i for i in items if i is not None]
    results = [apply_value(c, node, function, list(row), {}) for row in zip(*lists, strict=False)]
    return c.tuple(*_ssa(c, node, results))


@_takes(2, 3)
def _reduce(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    function, source, *start = values
    items = c.items(source, node)
    if items is None:
        kind = "fold" if start else "reduce"
        return c.over(kind, c.ssa(source, node), *_ssa(c, node, [function, *start]))
    if not start and not items:
        c.fail(node, "reduce of an empty tuple", "give a first value")
    return functools.reduce(lambda a, b: apply_value(c, node, function, [a, b], {}), [*start, *items])


@_takes(1, None, "strict")
def _zip(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    lists = [c.items(v, node) for v in values]
    strict = keywords.get("strict")
    if any(i is None for i in lists):
        if c.walking:
            c.unknown_length(node, "zip", "use it in a for")
        rows = [c.prim(ToTuple, v, count=to_attribute(0)) for v in _ssa(c, node, values)]
        options = {"strict": UnitAttr()} if isinstance(strict, Static) and strict.value else {}
        return c.prim(Zip, c.tuple(*rows), **options)
    known = [i for i in lists if i is not None]
    if isinstance(strict, Static) and strict.value and len({len(i) for i in known}) > 1:
        c.fail(node, f"zip of {' and '.join(str(len(i)) for i in known)} items with strict=True")
    rows = zip(*known, strict=False)
    return c.tuple(*[c.tuple(*_ssa(c, node, list(row))) for row in rows])


@_takes(1, 2, "start")
def _enumerate(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    items = c.items(values[0], node)
    if items is None:
        c.unknown_length(node, "enumerate as a value", "use it in a for")
    start = keywords.get("start", values[1] if len(values) > 1 else Static(0))
    numbers = [c.ssa(c.binary(Add, Static(i), start, node), node) for i in range(len(items))]
    return c.tuple(*[c.tuple(n, c.ssa(v, node)) for n, v in zip(numbers, items, strict=True)])


@_takes(1, 1)
def _reversed(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    items = c.items(values[0], node)
    if items is None:
        c.unknown_length(node, "reversed as a value", "use it in a for")
    if isinstance(values[0], Static):
        return Static(values[0].value[::-1])
    return c.tuple(*_ssa(c, node, items[::-1]))


@_takes(1, 3)
def _range(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    numbers = [v.value for v in values if isinstance(v, Static)]
    if len(numbers) != len(values):
        c.fail(node, "range as a value needs numbers known at compile time", "use it in a for")
    return Static(range(*numbers))


@_takes(0, 1)
def _tuple(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    if not values:
        return c.tuple()
    items = c.items(values[0], node)
    return values[0] if items is None else c.tuple(*_ssa(c, node, items))


def _dict(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    if values:
        if len(values) > 1 or keywords:
            c.fail(node, "dict of a value and keywords cannot be compiled", "write the keys: {'a': x}")
        return c.prim(MakeDict, c.ssa(values[0], node))
    record = c.record(("dict", *keywords), *_ssa(c, node, list(keywords.values())))
    c.fields[record] = tuple(keywords)
    return record


@_takes(1, 1)
def _len(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    items = c.items(values[0], node)
    return Static(len(items)) if items is not None else c.prim(Len, c.ssa(values[0], node))


@_takes(1, 2, "ndigits")
def _round(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    arguments = [*values, *keywords.values()]
    if len(arguments) == 1 or isinstance(arguments[1], Static) and arguments[1].value is None:
        return c.prim(NumberFunction("round"), c.ssa(arguments[0], node))
    return apply_value(c, node, Static(round_digits), arguments, {})


@_takes(2, 2)
def _isinstance(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    """Decided by the types that a function is specialised for."""
    items = c.items(values[1], node)
    kinds = [v.value for v in (values[1:] if items is None else items) if isinstance(v, Static)]
    kinds = [k for kind in kinds for k in (kind if isinstance(kind, tuple) else (kind,))]
    if not kinds or not all(isinstance(k, type) for k in kinds):
        c.fail(node, "the type in isinstance must be known at compile time", "write float, int, np.ndarray")
    if isinstance(values[0], Static) and not callable(values[0].value):
        return Static(isinstance(values[0].value, tuple(kinds)))
    names = [k.__qualname__ for k in kinds]
    return c.prim(IsInstance, c.ssa(values[0], node), kinds=ArrayAttr([StringAttr(n) for n in names]))


@_takes(1, 1)
def _callable(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    return c.prim(IsInstance, c.ssa(values[0], node), kinds=ArrayAttr([StringAttr("function")]))


@_takes(1, 2)
def _log(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    log = NumberFunction("log")
    logarithm = c.prim(log, c.ssa(values[0], node))
    return logarithm if len(values) == 1 else c.prim(Div, logarithm, c.prim(log, c.ssa(values[1], node)))


def _any_all(conjunction: bool) -> Handler:
    @_takes(1, 1)
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        items = c.items(values[0], node)
        if items is None:

            def both(pair: list[SSAValue]) -> SSAValue:
                test = c.ssa(c.truth(pair[1], node), node)
                chosen = (pair[0], test, pair[0]) if conjunction else (pair[0], pair[0], test)
                return c.switch(*chosen)

            two = c.function("all" if conjunction else "any", ("a", "b"), both)
            return c.over("fold", c.ssa(values[0], node), two, c.constant(conjunction))
        result = c.constant(conjunction)
        for item in items:
            test = c.ssa(c.truth(item, node), node)
            result = c.switch(result, test, result) if conjunction else c.switch(result, result, test)
        return result

    return handle


def _reduction(name: str) -> Handler:
    """np.sum and its like: axis and keepdims."""

    @_takes(1, 2, "axis", "keepdims")
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        options = dict(keywords)
        if len(values) > 1:
            options["axis"] = values[1]
        if any(known(c, v) is None for v in options.values()):
            return call_function(c, node, name.removeprefix("reduce_"), [values[0]], options)
        attributes: dict[str, Attribute] = {}
        for key, value in options.items():
            if not (isinstance(value, Static) and value.value is None):
                attributes[key] = static_attribute(c, node, key, value)
        return c.prim(Operator(name), as_array(c, node, values[0]), **attributes)

    return handle


def _shaped(value: float | None) -> Handler:
    """np.zeros, ones, full: an array of one value."""

    @_takes(1 if value is not None else 2, 2 if value is not None else 3, "dtype")
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        fill = c.constant(value) if value is not None else c.ssa(values[1], node)
        rest = values[1 if value is not None else 2 :]
        if value is None and (rest or keywords):  # whose type must hold the number
            zeros = c.prim(Full, c.ssa(values[0], node), c.constant(0))
            return c.prim(BroadcastLike, fill, _as_dtype(c, node, zeros, rest, keywords))
        return _as_dtype(c, node, c.prim(Full, c.ssa(values[0], node), fill), rest, keywords)

    return handle


def _as_dtype(
    c: Expressions, node: ast.AST, array: SSAValue, rest: Sequence[Value], keywords: Keywords
) -> SSAValue:
    """A value of the option `dtype`, given in `rest` by position or keyword, or not at all."""
    value = rest[0] if rest else keywords.get("dtype", Static(None))
    if isinstance(value, SSAValue):
        return c.prim(AstypeAs, array, value)
    if value.value is None:
        return array
    if value.value is complex:
        c.fail(node, *refusal(complex))
    try:
        return c.prim(Astype, array, dtype=StringAttr(np.dtype(value.value).name))
    except TypeError:
        c.fail(node, f"{value.value!r} is not a dtype", "write np.float32")


def _shaped_like(value: float) -> Handler:
    @_takes(1, 2, "dtype")
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        filled = c.prim(BroadcastLike, c.constant(value), c.ssa(values[0], node))
        return _as_dtype(c, node, filled, values[1:], keywords)

    return handle


@_takes(2, 3, "dtype")
def _full_like(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    like, fill = _ssa(c, node, values[:2])
    return c.prim(BroadcastLike, fill, _as_dtype(c, node, like, values[2:], keywords))


@_takes(2, None)
def _reshape(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    source, *shape = values
    whole = shape[0] if len(shape) == 1 else None
    if whole is None or (isinstance(whole, Static) and isinstance(whole.value, int)):
        whole = c.tuple(*_ssa(c, node, shape))
    return c.prim(Reshape, c.ssa(source, node), c.ssa(whole, node))


@_takes(1, None, "axes")
def _transpose(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    axes = keywords.get("axes", values[1] if len(values) == 2 else None)
    if len(values) > 2:
        axes = c.tuple(*_ssa(c, node, values[1:]))
    options: dict[str, Attribute] = {}
    if axes is not None:
        options["permutation"] = static_attribute(c, node, "axes", axes)
    return c.prim(Operator("transpose"), c.ssa(values[0], node), **options)


def _cast(dtype: str) -> Handler:
    @_takes(1, 1)
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        return c.prim(Astype, c.ssa(values[0], node), dtype=StringAttr(dtype))

    return handle


def _fitting(c: Expressions, node: ast.AST, value: Value, kind: Value) -> Value:
    """A value as an element of an array of a type, which must hold it where it is an int."""
    if isinstance(kind, Static):
        if kind.value is None or np.can_cast(np.int64, np.dtype(kind.value)):
            return value
        kind = Static(np.dtype(kind.value).name)
    return c.prim(Fitting, c.ssa(value, node), c.ssa(kind, node))


@_takes(1, 2, "dtype")
def _array(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    source, *rest = values
    kind = rest[0] if rest else keywords.get("dtype", Static(None))
    if isinstance(source, Static) and isinstance(kind, Static):
        return Static(np.array(source.value, kind.value))
    if c.items(source, node) is None:
        source = c.prim(Copy, c.prim(ToArray, c.ssa(source, node)))
    items = c.items(source, node)
    if items is None:
        return _as_dtype(c, node, c.ssa(_fitting(c, node, source, kind), node), rest, keywords)
    inner = [c.items(v, node) for v in items]
    if len({len(i) if i is not None else None for i in inner}) == 1 and inner[0] is not None:
        items = [_array(c, node, [v, kind], {}) for v in items]
    else:
        items = [_fitting(c, node, v, kind) for v in items]
    stacked = c.prim(Stack, *_ssa(c, node, items), axis=to_attribute(0))
    return _as_dtype(c, node, stacked, rest, keywords)


def _contiguous(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    return call_function(c, node, "atleast_1d", [_array(c, node, values, keywords)], {})


@_takes(1, 1)
def _copy(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    return c.prim(Copy, as_array(c, node, values[0]))


HANDLERS: dict[Any, Handler] = {
    **_of_cards(),
    max: _fold(PythonMax), min: _fold(PythonMin), sum: _sum, map: _map, zip: _zip, enumerate: _enumerate,
    reversed: _reversed, range: _range, tuple: _tuple, list: _tuple, len: _len, round: _round,
    isinstance: _isinstance, callable: _callable, dict: _dict, sorted: _sorted,
    any: _any_all(False), all: _any_all(True), functools.reduce: _reduce,
    math.log: _log, math.pow: _prim(NumberFunction("pow"), 2),
    np.matmul: pointwise(Operator("batch_matmul"), 2),
    operator.matmul: _prim(Operator("batch_matmul"), 2),
    np.sum: _reduction("reduce_sum"), np.max: _reduction("reduce_max"),
    np.min: _reduction("reduce_min"), np.prod: _reduction("reduce_prod"),
    np.amax: _reduction("reduce_max"), np.amin: _reduction("reduce_min"),
    **NUMPY, **STRUCTURES,
    np.zeros: _shaped(0.0), np.ones: _shaped(1.0), np.full: _shaped(None),
    np.full_like: _full_like, np.zeros_like: _shaped_like(0), np.empty: _shaped(0.0),
    np.empty_like: _shaped_like(0), np.ones_like: _shaped_like(1),
    np.reshape: _reshape,
    np.transpose: _transpose,
    real: pointwise(ToFloat, 1), np.float32: _cast("float32"), np.float64: _cast("float64"), np.array: _array,
    np.asarray: _array, np.asanyarray: _array, np.ascontiguousarray: _contiguous, np.copy: _copy,
}  # fmt: skip

_METHODS: dict[str, Handler] = {
    **METHODS,
    "sum": _reduction("reduce_sum"), "max": _reduction("reduce_max"), "min": _reduction("reduce_min"),
    "prod": _reduction("reduce_prod"), "reshape": _reshape, "transpose": _transpose,
}  # fmt: skip


def method(
    c: Expressions, node: ast.AST, base: SSAValue, name: str, values: list[Value], keywords: Keywords
) -> Value:
    """A method of an array or tuple."""
    if name == "astype":
        return _as_dtype(c, node, base, values, keywords)
    if name == "copy":
        return c.prim(Copy, base)
    if name in DICT_METHODS:
        return DICT_METHODS[name](c, node, [base, *values], keywords)
    if name in ASKING and len(values) == 1 and (items := c.items(base, node)) is not None:
        return ASKING[name](c, node, _ssa(c, node, items), c.ssa(values[0], node))
    if name in CHANGING:
        c.fail(
            node,
            f"{name} of a list whose length is not known, or that has no name, cannot be compiled",
            "loop over its items, or carry an array and a position",
        )
    if name not in _METHODS:
        if "cannot be compiled" not in refusal(getattr(np, name, None))[0]:
            c.fail(node, *refusal(getattr(np, name), f"the method '{name}'"))
        names = ", ".join(sorted(_METHODS))
        c.fail(node, f"the method '{name}' cannot be compiled", f"use a function, or one of {names}")
    return _METHODS[name](c, node, [base, *values], keywords)
