"""Calls: Python functions, built-ins, `math`, NumPy, graph operators, array methods, gradients."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.fn.dialect import ConstantOp, TupleOp
from glow_dialects.fn.gradients import GradOp, ValueAndGradOp, argnums
from glow_dialects.fn.primitives import PRIMITIVES
from glow_dialects.fn.primitives.cotangents import StopGradient
from glow_dialects.fn.primitives.operators import Operator
from glow_dialects.fn.primitives.records import Zip
from glow_dialects.fn.record import fields_of, register
from glow_dialects.fn.types import any_type
from glow_frontends.python.emit import Known, Static, Value
from glow_frontends.python.functions import apply, described, refuse_generator
from glow_frontends.python.hints import refusal
from glow_frontends.python.lists import change, changes
from glow_frontends.python.masks import CALLED, REDUCTIONS, called, masked, perhaps
from glow_frontends.python.masks import method as method_of_masked

if TYPE_CHECKING:
    from glow_frontends.python.expressions import Env, Expressions

Keywords = dict[str, Value]
Handler = Callable[["Expressions", ast.AST, list[Value], Keywords], Value]


def call(c: Expressions, node: ast.Call, env: Env) -> Value:
    """The value of a call."""
    if changes(c, node, env):
        return change(c, node, env)
    if isinstance(node.func, ast.Attribute):
        base = c.expression(node.func.value, env)
        if (some := masked(base)) is not None:
            return method_of_masked(c, node, some, node.func.attr, len(node.args) + len(node.keywords))
        if isinstance(base, SSAValue) or isinstance(base.value, np.ndarray):
            return _method(c, node, node.func.attr, base, env)
        if isinstance(base.value, dict) and node.func.attr in ("keys", "values", "items") and not node.args:
            return Static(tuple(getattr(base.value, node.func.attr)()))
    function = c.expression(node.func, env)
    if isinstance(function, Static) and function.value is zip:
        columns = _columns(c, node, env)
        if columns is not None:
            return columns
    if len(node.args) == 1 and isinstance(node.args[0], ast.Starred) and not node.keywords:
        whole = c.expression(node.args[0].value, env)
        if c.items(whole, node) is None and not (isinstance(function, Static) and _handler(function.value)):
            return c.over("apply", c.ssa(whole, node), c.ssa(function, node))
    known = isinstance(function, Static) and (_handler(function.value) or _written(function.value))
    for argument in node.args:
        if isinstance(argument, ast.GeneratorExp) and not known:
            refuse_generator(c, argument)
    values, keywords = arguments(c, node, env)
    c.at(node)
    return apply_value(c, node, function, values, keywords)


def _method(c: Expressions, node: ast.Call, name: str, base: Value, env: Env) -> Value:
    """The call of a method of an array."""
    from glow_frontends.python.library import method

    values, keywords = arguments(c, node, env)
    whole = c.ssa(base, node)
    if name in REDUCTIONS and not values and not keywords:
        reduction = perhaps(c, node, whole, REDUCTIONS[name], lambda v: method(c, node, v, name, [], {}))
        if reduction is not None:
            return reduction
    return method(c, node, whole, name, values, keywords)


def _spread(c: Expressions, node: ast.AST, value: Value) -> Keywords:
    """The keywords of `**d` for a dict that is written out."""
    if isinstance(value, Static) and isinstance(value.value, dict):
        return _statics(value.value)
    if isinstance(value, SSAValue) and value in c.fields and isinstance(value.owner, TupleOp):
        return dict(zip(c.fields[value], value.owner.values, strict=True))
    c.fail(node, "** of a dict whose keys are not known here cannot be compiled", "write the keywords out")


def _columns(c: Expressions, node: ast.Call, env: Env) -> SSAValue | None:
    """`zip(*t)` where only its type tells the length of t; None for other calls."""
    if len(node.args) != 1 or not isinstance(node.args[0], ast.Starred):
        return None
    whole = c.expression(node.args[0].value, env)
    if c.items(whole, node) is not None:
        return None
    strict = [k for k in node.keywords if k.arg == "strict" and isinstance(k.value, ast.Constant)]
    if len(strict) < len(node.keywords):
        c.fail(node, "zip takes values, and strict=True or False")
    options = {"strict": UnitAttr()} if any(k.value.value for k in strict) else {}  # pyright: ignore
    return c.prim(Zip, c.ssa(whole, node), **options)


def arguments(c: Expressions, node: ast.Call, env: Env) -> tuple[list[Value], Keywords]:
    """Values of the arguments; `*tuple` is spread."""
    values: list[Value] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            items = c.items(c.expression(argument.value, env), argument)
            if items is None:
                c.unknown_length(argument, "*", "pass the items one by one")
            values += items
        else:
            values.append(c.expression(argument, env))
    keywords: Keywords = {}
    for keyword in node.keywords:
        value = c.expression(keyword.value, env)
        if keyword.arg is None:
            keywords |= _spread(c, node, value)
        else:
            keywords[keyword.arg] = value
    return values, keywords


def apply_value(
    c: Expressions, node: ast.AST, function: Value, values: list[Value], keywords: Keywords
) -> Value:
    """A call of a value of the program or of a Python object."""
    if isinstance(function, SSAValue):
        return _apply(c, node, function, values, keywords)
    thing = function.value
    handler = _handler(thing)
    if handler is not None and any(map(masked, values)):
        return called(c, node, thing, values, keywords, lambda *whole: handler(c, node, list(whole), {}))
    if handler is not None:
        if len(values) == 1 and not keywords and thing in CALLED:
            reduced = perhaps(c, node, values[0], CALLED[thing], lambda v: handler(c, node, [v], {}))
            if reduced is not None:
                return reduced
        return handler(c, node, values, keywords)
    known = evaluated(thing, values, keywords)
    if known is not None:
        return known
    if fields_of(thing) is not None:
        return _record(c, node, thing, values, keywords)
    if isinstance(thing, functools.partial):
        bound_values = [*(Static(v) for v in thing.args), *values]
        return apply_value(
            c, node, Static(thing.func), bound_values, {**_statics(thing.keywords), **keywords}
        )
    return _apply(c, node, as_function(c, thing, node), values, keywords)


def evaluated(thing: Any, values: list[Value], keywords: Keywords) -> Static | None:
    """The value of a NumPy function of objects that are known now, such as np.eye(3)."""
    operands = [*values, *keywords.values()]
    if not operands or not str(getattr(thing, "__module__", "")).startswith("numpy") or _written(thing):
        return None
    plain = [v.value for v in operands if isinstance(v, Static)]
    if len(plain) != len(operands) or any(callable(v) for v in plain):
        return None
    try:
        result = thing(*plain[: len(values)], **dict(zip(keywords, plain[len(values) :], strict=True)))
    except (TypeError, ValueError):
        return None
    if isinstance(result, np.generic) and result.dtype.name in ("float64", "int64", "bool"):
        return Static(result.item())
    return Static(result) if isinstance(result, np.ndarray | np.generic) else None


def _record(c: Expressions, node: ast.AST, kind: Any, values: list[Value], keywords: Keywords) -> Value:
    """A named tuple or a dataclass: a tuple whose items have names."""
    fields = fields_of(kind)
    assert fields is not None
    fields_by_name = dict(zip(fields, values, strict=False)) | keywords
    fields_by_name = _statics(_defaults(kind)) | fields_by_name
    wrong = [n for n in [*keywords, *fields] if n not in fields or n not in fields_by_name]
    if wrong or len(values) > len(fields):
        c.fail(node, f"{kind.__name__} has the fields {', '.join(fields)}")
    record = c.record(register(kind), *[c.ssa(fields_by_name[n], node) for n in fields])
    c.fields[record] = fields
    return record


def _defaults(kind: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(kind):
        return kind._field_defaults
    return {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}


def _written(thing: Any) -> Any:
    from glow_frontends.python.math_written import WRITTEN

    try:
        return WRITTEN.get(thing)
    except TypeError:
        return None


def _statics(values: dict[str, Any]) -> Keywords:
    return {n: Static(v) for n, v in values.items()}


def _apply(
    c: Expressions, node: ast.AST, function: SSAValue, values: list[Value], keywords: Keywords
) -> SSAValue:
    by_name = {n: c.ssa(v, node) for n, v in keywords.items()}
    return apply(c, function, [c.ssa(v, node) for v in values], by_name, node)


def as_function(c: Expressions, thing: Any, node: ast.AST, full: bool = False, called: str = "") -> SSAValue:
    """A Python callable as a function value; `full`: of all its parameters, those with defaults too.

    `called`: where the user's text calls it, if it is a function of ours.
    """
    called = called or c.source.called
    if hasattr(thing, "glow_gradient"):
        inner, positions, single, with_value = thing.glow_gradient
        return gradient(c, as_function(c, inner, node, full), positions, single, with_value)
    if hasattr(thing, "glow_transformed"):
        from glow_frontends.python.transforms import transformed

        return transformed(c, thing, node)
    if hasattr(thing, "glow_function") and not hasattr(thing, "glow_declared"):
        return as_function(c, thing.glow_function, node, full)
    if isinstance(thing, functools.partial):
        inner = as_function(c, thing.func, node)
        known = c.signature(inner)
        by_name = {n: c.ssa(Static(v), node) for n, v in thing.keywords.items()}
        fixed = [c.ssa(Static(v), node) for v in thing.args]
        partial = bound(c, inner, known, fixed, by_name, node)
        after = c.signature(partial)
        return after.full if full and after is not None else partial
    handler = _handler(thing)
    if handler is not None:
        return _wrapped(c, thing, handler, node)
    written = _written(thing)
    if written is not None:
        return as_function(c, written, node, full, c.source.where(node))
    ours = hasattr(thing, "glow_function") or hasattr(thing, "glow_module")
    object_called = not isinstance(thing, type) and not ours
    if object_called and inspect.ismethod(getattr(thing, "__call__", None)):  # noqa: B004
        thing = thing if inspect.ismethod(thing) else thing.__call__
    if hasattr(thing, "glow_module"):
        value = c.ref(c.importer.function(thing))
        constants = {n: c.ssa(Static(v), node) for n, v in thing.glow_defaults.items()}
        return value if full else described(c, value, thing.glow_names, constants, thing.glow_rest)
    if isinstance(thing, type) or not hasattr(getattr(thing, "glow_function", thing), "__code__"):
        c.fail(node, *refusal(thing))
    name = c.importer.function(thing, called)
    value = c.ref(name)
    if full:
        return value
    thing = getattr(thing, "glow_function", thing)
    code = thing.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    rest = bool(code.co_flags & 0x04)
    names = code.co_varnames[inspect.ismethod(thing) : count + rest]
    values = thing.__defaults__ or ()
    first = code.co_argcount - len(values)
    named = code.co_varnames[first : code.co_argcount]
    defaults = dict(zip(named, values, strict=True)) | (thing.__kwdefaults__ or {})
    constants = {n: c.ssa(Static(v), node) for n, v in defaults.items()}
    return described(c, value, names, constants, rest)


def _wrapped(c: Expressions, thing: Any, handler: Handler, node: ast.AST) -> SSAValue:
    """A built-in function as a value: of as many parameters as its primitive takes."""
    name = getattr(thing, "__name__", "builtin")
    count = _ARITY.get(thing, 2 if name in ("max", "min", "pow") else 1)
    names = [f"x{i}" for i in range(count)]
    return c.function(name, names, lambda values: c.ssa(handler(c, node, list(values), {}), node))


#: The numbers of arguments of the functions of Python and NumPy that are primitives.
_ARITY = {f: card.arity or 1 for card in PRIMITIVES for f in card.called}


def bound(
    c: Expressions,
    function: SSAValue,
    known: Known | None,
    values: Sequence[SSAValue],
    keywords: dict[str, SSAValue],
    node: ast.AST,
) -> SSAValue:
    """functools.partial: the function with some arguments fixed."""
    if known is None or not (keywords or known.defaults or known.rest):
        if keywords:
            c.fail(node, "keywords in partial of an unknown function", "bind the arguments by position")
        closure = c.partial(function, *values) if values else function
        if known is not None:
            c.known[closure] = Known(closure, known.names[len(values) :])
        return closure
    unknown = [n for n in keywords if n not in known.names]
    if unknown:
        c.fail(node, f"there is no parameter '{unknown[0]}'")
    fixed = {**known.defaults, **dict(zip(known.names, values, strict=False)), **keywords}
    firm = set(known.names[: len(values)])
    names = [n for n in known.names if n not in firm]

    def body(inner: list[SSAValue]) -> SSAValue:
        by_name = {**fixed, **dict(zip(names, inner, strict=True))}
        return c.call(known.full, *[by_name[n] for n in known.names])

    full = c.function(f"{c.name}.partial", names, body)
    fixed_after = {n: v for n, v in fixed.items() if n not in firm}
    return described(c, full, names, fixed_after, known.rest)


def gradient(
    c: Expressions, function: SSAValue, positions: Sequence[int], single: bool, with_value: bool
) -> SSAValue:
    """glow.grad or glow.value_and_grad of a function value."""
    op = ValueAndGradOp if with_value else GradOp
    gradient_op = op.create(
        operands=[function], properties=argnums(positions, single), result_types=[any_type]
    )
    value = c.add(gradient_op)
    known = c.signature(function)
    if known is not None and function is known.full:
        c.known[value] = Known(value, known.names, known.defaults, known.rest)
    return value


def _transform(with_value: bool) -> Handler:
    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        wanted = keywords.get("argnums", values[1] if len(values) > 1 else Static(0))
        if not isinstance(wanted, Static):
            items = c.items(wanted, node)
            numbers = [int_constant(v) for v in items or ()]
            if not numbers or None in numbers:
                c.fail(node, "argnums must be known at compile time", "write the numbers")
            return gradient(
                c, c.ssa(values[0], node), [n for n in numbers if n is not None], False, with_value
            )
        single = isinstance(wanted.value, int)
        numbers = (wanted.value,) if single else tuple(wanted.value)
        return gradient(c, c.ssa(values[0], node), numbers, single, with_value)

    return handle


def int_constant(value: Value) -> int | None:
    """The int that a value is known to be."""
    from xdsl.dialects.builtin import IntegerAttr

    if isinstance(value, Static):
        return value.value
    owner = value.owner
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _operator(name: str) -> Handler:
    """A card as a function: arrays by position, properties by keyword."""

    def handle(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
        attributes = {n: static_attribute(c, node, n, v) for n, v in keywords.items()}
        operands = [c.ssa(v, node) for v in values]
        return c.prim(Operator(name), *operands, **attributes)

    return handle


def static_attribute(c: Expressions, node: ast.AST, name: str, value: Value) -> Attribute:
    """An option of an operator: known when compiling."""
    if isinstance(value, SSAValue):
        items = c.items(value, node)
        numbers = None if items is None else [int_constant(v) for v in items]
        if numbers is None and int_constant(value) is not None:
            return to_attribute(int_constant(value))
        if numbers is None or None in numbers:
            c.fail(node, f"'{name}' must be known at compile time", "write the number")
        return to_attribute([n for n in numbers if n is not None])
    try:
        return to_attribute(value.value)
    except TypeError:
        c.fail(node, f"'{name}' cannot be {value.value!r}", "use numbers and texts")


def _partial(c: Expressions, node: ast.AST, values: list[Value], keywords: Keywords) -> Value:
    function = c.ssa(values[0], node)
    rest = [c.ssa(v, node) for v in values[1:]]
    return bound(
        c, function, c.signature(function), rest, {n: c.ssa(v, node) for n, v in keywords.items()}, node
    )


def _handler(thing: Any) -> Handler | None:
    """The handler of calls of a Python object, None for functions of the user."""
    if thing is functools.partial:
        return _partial
    transform = getattr(thing, "glow_transform", None)
    if transform is not None:
        if transform in ("jit", "unroll"):
            return lambda c, node, values, keywords: values[0]
        if transform == "stop":
            return lambda c, node, values, keywords: c.prim(StopGradient, c.ssa(values[0], node))
        if transform in ("grad", "value_and_grad"):
            return _transform(transform == "value_and_grad")
        from glow_frontends.python.transforms import HANDLERS as TRANSFORMS

        return TRANSFORMS[transform]
    primitive = getattr(thing, "glow_primitive", None)
    if primitive is not None:
        return lambda c, node, values, keywords: c.prim(primitive, *[c.ssa(v, node) for v in values])
    operator = getattr(thing, "glow_operator", None)
    if operator is not None:
        return _operator(operator)
    from glow_frontends.python.library import HANDLERS

    try:
        return HANDLERS.get(thing)
    except TypeError:
        return None
