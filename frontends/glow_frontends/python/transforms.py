"""`glow.vmap`, `jvp`, `vjp`, `jacobian` and `hessian` of function values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, UnitAttr, i64
from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import ConstantOp, TupleOp
from glow_dialects.fn.gradients import JvpOp
from glow_dialects.fn.primitives.mapped import DEFAULT, GoesByRows, MapIn, MapOut
from glow_dialects.fn.primitives.tuples import ConcatTuples
from glow_dialects.fn.types import any_type
from glow_frontends.python import transforms_written as written
from glow_frontends.python.calls import Keywords, as_function, gradient, int_constant
from glow_frontends.python.emit import Known, Static, Value

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Expressions

Axes = Any
Handler = Callable[["Expressions", ast.AST, list[Value], Keywords], Value]


def axes_of(c: Expressions, node: ast.AST, value: Value) -> Axes:
    """Axes that are known when compiling: a number, None, or tuples and dicts of these."""
    if isinstance(value, Static):
        return _checked(c, node, value.value)
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, UnitAttr):
        return None
    if value in c.fields and isinstance(owner, TupleOp):
        return {n: axes_of(c, node, v) for n, v in zip(c.fields[value], owner.values, strict=True)}
    if isinstance(owner, TupleOp):
        return tuple(axes_of(c, node, v) for v in owner.values)
    number = int_constant(value)
    return _checked(c, node, value if number is None else number)


def _checked(c: Expressions, node: ast.AST, axes: Any) -> Axes:
    if isinstance(axes, tuple | list):
        return tuple(_checked(c, node, a) for a in axes)
    if isinstance(axes, dict):
        return {n: _checked(c, node, a) for n, a in axes.items()}
    if axes is not None and (not isinstance(axes, int) or isinstance(axes, bool)):
        c.fail(node, "axes of vmap are numbers, None, or tuples and dicts of these", "write the numbers")
    return axes


def mapped(c: Expressions, node: ast.AST, function: SSAValue, in_axes: Axes, out_axes: Axes) -> SSAValue:
    """glow.vmap of a function value."""
    known = c.signature(function)
    if known is None and not isinstance(in_axes, tuple):
        c.fail(node, "vmap of a function whose parameters are not known here", "give in_axes as a tuple")
    names = [f"x{i}" for i in range(len(in_axes))] if known is None else list(known.names)
    defaults = {} if known is None else known.defaults
    plain = names[: len(names) - (known is not None and known.rest)]
    if isinstance(in_axes, tuple):
        if len(in_axes) > len(plain) and len(plain) == len(names):
            c.fail(node, f"in_axes has {len(in_axes)} axes for {len(names)} parameters", "give one each")
        needed = sum(n not in defaults for n in plain)
        if len(in_axes) < needed:
            c.fail(node, f"in_axes has {len(in_axes)} axes for {needed} parameters", "give one each")
        axes = [*in_axes[: len(plain)], *[None] * (len(plain) - len(in_axes))]
        axes += [tuple(in_axes[len(plain) :])] if len(plain) < len(names) else []
    else:
        default = None if in_axes is None else (DEFAULT, in_axes)
        axes = [default if n in defaults else in_axes for n in names]
    place = c.importer.place(c.source.where(node))
    shown = " ".join(n.replace(" ", "_") for n in names)

    def body(values: list[SSAValue]) -> SSAValue:
        full = function if known is None else known.full

        def together(_: list[SSAValue]) -> SSAValue:
            options = {"axes": StringAttr(repr((None, *axes)))}
            marks = {"place": StringAttr(place), "names": StringAttr(shown)}
            went_in = c.prim(MapIn, c.tuple(full, *values), **options, **marks)
            parts = [c.get(went_in, i) for i in range(len(values) + 1)]
            result = c.call(*parts)
            return c.prim(MapOut, result, went_in, axes=StringAttr(repr(out_axes)))

        def row_by_row(_: list[SSAValue]) -> SSAValue:
            function = as_function(c, written.by_rows, node, called=c.source.where(node))
            texts = [repr(tuple(axes)), repr(out_axes), f"{shown}\n{place}"]
            return c.call(function, full, c.tuple(*values), *map(c.constant, texts))

        rows = c.prim(GoesByRows, place=StringAttr(place))
        ways = [c.function(f"vmap.{n}", [], w) for n, w in (("rows", row_by_row), ("together", together))]
        return c.call(c.switch(rows, *ways))

    value = c.function("vmap", names, body)
    if known is not None:
        c.known[value] = Known(value, known.names, known.defaults, known.rest)
    return value


def ahead(c: Expressions, function: SSAValue) -> SSAValue:
    """The function of the parameters of a function, then their tangents: its value and tangent."""
    nothing = DenseArrayBase.from_list(i64, [])
    return c.add(JvpOp.create(operands=[function], properties={"argnums": nothing}, result_types=[any_type]))


def _whole(c: Expressions, value: Value, node: ast.AST, what: str) -> SSAValue:
    items = c.items(value, node)
    if items is not None:
        return c.tuple(*[c.ssa(v, node) for v in items])
    if isinstance(value, Static):
        c.fail(node, f"jvp: {what} are not a tuple", "write (x,) for one")
    return value


def _jvp(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    function, primals, tangents = _named(c, node, values, keywords, ("fun", "primals", "tangents"))
    first, second = _whole(c, primals, node, "primals"), _whole(c, tangents, node, "tangents")
    return c.over("apply", c.prim(ConcatTuples, first, second), ahead(c, c.ssa(function, node)))


def _vjp(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    if not values or keywords:
        c.fail(node, "vjp takes a function and its arguments, by position")
    function, *primals = (c.ssa(v, node) for v in values)
    of = as_function(c, written.vjp_of, node, called=c.source.where(node))
    return c.call(of, function, c.tuple(*primals))


def _named(
    c: Expressions,
    node: ast.AST,
    values: Sequence[Value],
    keywords: Keywords,
    names: Sequence[str],
    **rest: Any,
) -> list[Value]:
    given = dict(zip(names, values, strict=False)) | keywords
    for name in given:
        if name not in names:
            c.fail(node, f"there is no argument '{name}'", f"use {', '.join(names)}")
    for name in names:
        if name not in given and name not in rest:
            c.fail(node, f"the argument '{name}' is missing")
    return [given[n] if n in given else Static(rest[n]) for n in names]


def _vmap(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    names = ("fun", "in_axes", "out_axes")
    function, in_axes, out_axes = _named(c, node, values, keywords, names, in_axes=0, out_axes=0)
    axes = (axes_of(c, node, v) for v in (in_axes, out_axes))
    return mapped(c, node, c.ssa(function, node), *axes)


def jacobian(
    c: Expressions, node: ast.AST, function: SSAValue, positions: Sequence[int], single: bool
) -> SSAValue:
    """glow.jacobian of a function value."""
    known = c.signature(function)
    count = len(known.names) if known is not None else max(positions) + 1
    names = [f"x{i}" for i in range(count)] if known is None else list(known.names)
    if not all(-count <= p < count for p in positions):
        c.fail(node, f"argnums {tuple(positions)} of a function of {count} parameters", "count from 0")
    full = function if known is None else known.full

    def body(values: list[SSAValue]) -> SSAValue:
        of = as_function(c, written.jacobian_of, node, called=c.source.where(node))
        made: list[SSAValue] = []
        for position in (p % count for p in positions):
            others = {i: v for i, v in enumerate(values) if i != position}

            def alone(x: list[SSAValue], position: int = position, others: Any = others) -> SSAValue:
                return c.call(full, *({**others, position: x[0]}[i] for i in range(count)))

            by_one = c.function("alone", [names[position]], alone)
            made.append(c.call(of, by_one, values[position]))
        return made[0] if single else c.tuple(*made)

    value = c.function("jacobian", names, body)
    if known is not None:
        c.known[value] = Known(value, known.names, known.defaults, known.rest)
    return value


def hessian(
    c: Expressions, node: ast.AST, function: SSAValue, positions: Sequence[int], single: bool
) -> SSAValue:
    """glow.hessian of a function value: for several arguments, a tuple for each of tuples by each."""
    known = c.signature(function)
    full = function if known is None else known.full
    if known is not None and function is not full:
        c.known[full] = Known(full, known.names, known.defaults, known.rest)
    rows = [jacobian(c, node, gradient(c, full, [p], True, False), positions, single) for p in positions]
    if single:
        return rows[0]
    names = [f"x{i}" for i in range(max(positions) + 1)] if known is None else list(known.names)

    def body(values: list[SSAValue]) -> SSAValue:
        return c.tuple(*[c.call(row, *values) for row in rows])

    value = c.function("hessian", names, body)
    if known is not None:
        c.known[value] = Known(value, known.names, known.defaults, known.rest)
    return value


def _by(make: Callable[..., SSAValue]) -> Handler:
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        function, wanted = _named(c, node, values, keywords, ("fun", "argnums"), argnums=0)
        positions = axes_of(c, node, wanted)
        single = isinstance(positions, int)
        return make(c, node, c.ssa(function, node), [positions] if single else list(positions), single)

    return handle


HANDLERS: dict[str, Handler] = {
    "vmap": _vmap, "jvp": _jvp, "vjp": _vjp, "jacobian": _by(jacobian), "hessian": _by(hessian),
}  # fmt: skip


def transformed(c: Expressions, thing: Any, node: ast.AST) -> SSAValue:
    """A function of `glow` that was made outside: vmap(f), jacobian(f), hessian(f)."""
    kind, inner, options = thing.glow_transformed
    function = as_function(c, inner, node)
    if kind == "vmap":
        axes = [_checked(c, node, options[n]) for n in ("in_axes", "out_axes")]
        return mapped(c, node, function, *axes)
    make = {"jacobian": jacobian, "hessian": hessian}[kind]
    return make(c, node, function, options["positions"], options["single"])
