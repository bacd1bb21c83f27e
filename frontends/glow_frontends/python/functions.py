"""Nested functions and lambdas: closures, defaults, recursive groups, and calls that know them."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NoReturn

from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import TupleOp
from glow_dialects.fn.record import fields_of
from glow_frontends.python.argument_writes import caller, given
from glow_frontends.python.desugar import is_drawn
from glow_frontends.python.emit import Known, Made, Static, Value
from glow_frontends.python.expressions import Env, Expressions
from glow_frontends.python.statement_names import assigned, read_names
from glow_frontends.python.statements import Flow, Statements


def parameters(arguments: ast.arguments) -> tuple[list[str], bool]:
    """Names of the parameters in order of the compiled function, and whether the last is `*rest`."""
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    rest = arguments.vararg is not None
    names += [a.arg for a in arguments.kwonlyargs]
    return ([*names, arguments.vararg.arg] if arguments.vararg is not None else names), rest


def defaults(c: Expressions, arguments: ast.arguments, env: Env) -> dict[str, SSAValue]:
    """Default values, evaluated where the function is defined."""
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    pairs = list(zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True))
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            pairs.append((argument.arg, value))
    return {name: c.value(value, env) for name, value in pairs}


def closure(
    c: Expressions,
    node: ast.FunctionDef | ast.Lambda,
    arguments: ast.arguments,
    name: str,
    env: Env,
    own: str | None,
    own_defaults: dict[str, SSAValue] | None = None,
) -> SSAValue:
    """The value of a nested function; `own`: its name where it calls itself; `own_defaults`: its defaults."""
    assert isinstance(c, Statements)
    if arguments.kwarg is not None:
        c.fail(node, "**keywords cannot be compiled", "name the parameters")
    names, rest = parameters(arguments)
    known = defaults(c, arguments, env) if own_defaults is None else own_defaults
    wanted = [own, *names] if own is not None else names

    def body(values: list[SSAValue]) -> SSAValue:
        inner: Env = {**env, **dict(zip(wanted, values, strict=True))}
        if own is not None:
            c.known[values[0]] = Known(values[0], tuple(names), known, rest)
        return compile_body(c, node, inner, name, names)

    full = c.function(name, wanted, body, recursive=own is not None, counted=True)
    full_closure = described(c, full, names, known, rest)
    local = {own, *names, *(assigned(node.body) if isinstance(node, ast.FunctionDef) else ())}
    read = {n: env[n] for n in read_names(node) - local if n in env}
    c.closures[full_closure] = Made(node, name, own, known, read, c.scope)
    return full_closure


def current(c: Expressions, value: Value, env: Env) -> Value:
    """A closure of this function, or a tuple of some, made again where names that they read changed."""
    if isinstance(value, SSAValue) and isinstance(value.owner, TupleOp):
        return _current_items(c, value, env)
    recorded = c.closures.get(value) if isinstance(value, SSAValue) else None
    if recorded is None or recorded.scope is not c.scope:
        return value
    now = {n: current(c, env.get(n, v), env) for n, v in recorded.read.items()}
    if all(_same(now[n], v) for n, v in recorded.read.items()):
        return value
    return closure(
        c, recorded.node, recorded.node.args, recorded.name, {**env, **now}, recorded.own, recorded.defaults
    )


def _current_items(c: Expressions, value: SSAValue, env: Env) -> SSAValue:
    assert isinstance(value.owner, TupleOp)
    items = value.owner.operands
    now = [current(c, v, env) for v in items]
    if all(a is b for a, b in zip(items, now, strict=True)):
        return value
    return c.again(value, [v for v in now if isinstance(v, SSAValue)])


def _same(a: Value, b: Value) -> bool:
    return a is b or (isinstance(a, Static) and isinstance(b, Static) and a.value is b.value)


def comprehension(c: Expressions, node: ast.ListComp | ast.GeneratorExp, env: Env) -> Value:
    """The items of a list or a generator; functions among those of a list read its names as they are last."""
    if isinstance(node, ast.GeneratorExp) and not is_drawn(node):
        refuse_generator(c, node)
    with _inside(c, read_names(node), env) as env:
        items = c.listed(node, env)
        now = current(c, items, env)
        if now is not items and isinstance(node, ast.GeneratorExp):
            hint = "write a list, [..], or give them the name by a default: lambda k=k:"
            c.fail(node, "functions of a generator that read its names, which change", hint)
        return now


def refuse_generator(c: Expressions, node: ast.GeneratorExp) -> NoReturn:
    """Raise where a generator has a name: its items are computed later, and there once."""
    c.fail(node, "a generator that a name or a function keeps cannot be compiled", "write a list, [..]")


@contextmanager
def _inside(c: Expressions, names: Iterable[str], env: Env) -> Generator[Env]:
    """A comprehension, whose own names hide those of the function around from no closure."""
    outer, settled = c.scope, {n: current(c, env[n], env) for n in names if n in env}
    c.scope = object()
    try:
        yield {**env, **settled}
    finally:
        c.scope = outer


def compile_body(
    c: Statements, node: ast.FunctionDef | ast.Lambda, env: Env, name: str, names: Sequence[str]
) -> SSAValue:
    """The value of a function's body."""
    outer, kept, around = c.name, c.maybe, (c.foreign, c.twins, c.arguments, c.scope)
    shares, after, caught = c.sharing.shares, c.after, (c.written, c.callers)
    if c.main:
        c.sharing.shares, c.callers = given(names), frozenset(map(caller, names))
    else:
        c.written, c.callers = (), frozenset()
    c.name, c.maybe, c.twins, c.scope = name, c.maybe - set(names), {}, object()
    c.foreign = {n: "the function around" for n in env.keys() - set(names)} | {
        n: "the caller" for n in names if not c.main
    }
    c.main, c.arguments = False, set(env)
    _annotated(c, node.args, env)
    if isinstance(node, ast.Lambda):
        value = c.value(node.body, env)
    else:

        def missing(inner: Env) -> SSAValue:
            return c.returned(c.constant(None), inner)

        value = c.run(node.body, env, Flow(past=missing))
    c.name, c.maybe, c.foreign, c.twins, c.arguments, c.scope = outer, kept, *around
    c.sharing.shares, c.after, (c.written, c.callers) = shares, after, caught
    return value


def _annotated(c: Statements, arguments: ast.arguments, env: Env) -> None:
    """Parameters whose annotation is a class of named tuples have its fields."""
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        note, value = argument.annotation, env.get(argument.arg)
        name = note.value if isinstance(note, ast.Constant) else getattr(note, "id", None)
        kind = c.source.names.get(name) if isinstance(name, str) else None
        fields = fields_of(kind)
        if fields is not None and isinstance(value, SSAValue):
            c.fields[value] = fields


def described(
    c: Expressions, full: SSAValue, names: Sequence[str], fixed: dict[str, SSAValue], rest: bool
) -> SSAValue:
    """The function as a value: of the parameters without defaults; calls by name know the rest."""
    value = full
    if fixed or rest:
        required = [n for n in names[: len(names) - rest] if n not in fixed]

        def short(values: list[SSAValue]) -> SSAValue:
            by_name = {**fixed, **dict(zip(required, values, strict=True))}
            tail = [c.tuple()] if rest else []
            return c.call(full, *[by_name[n] for n in names[: len(names) - rest]], *tail)

        value = c.function(f"{c.name}.defaults", required, short)
    c.known[value] = Known(full, tuple(names), fixed, rest)
    return value


def define(c: Statements, group: Sequence[ast.FunctionDef], env: Env) -> None:
    """Bind the names of nested functions that are defined together."""
    for node in group:
        for decorator in node.decorator_list:
            value = c.expression(decorator, env)
            if not isinstance(value, Static) or getattr(value.value, "glow_transform", "") != "jit":
                c.fail(decorator, "decorators of nested functions cannot be compiled", "call them")
        env.pop(node.name, None)
    if len(group) == 1:
        node = group[0]
        own = node.name if node.name in read_names(node) else None
        c.at(node)
        env[node.name] = _named(closure(c, node, node.args, node.name, env, own), node.name)
        return
    _define_group(c, group, env)


def _define_group(c: Statements, group: Sequence[ast.FunctionDef], env: Env) -> None:
    """Mutual recursion: one recursive function without parameters gives the tuple of all of them."""
    defaults_of = [defaults(c, node.args, env) for node in group]

    def definitions(values: list[SSAValue]) -> SSAValue:
        whole = values[0]

        def one(node: ast.FunctionDef) -> SSAValue:
            names = parameters(node.args)[0]

            def body(arguments: list[SSAValue]) -> SSAValue:
                inner: Env = {**env, **_siblings(c, group, defaults_of, c.call(whole))}
                inner.update(zip(names, arguments, strict=True))
                return compile_body(c, node, inner, node.name, names)

            return c.function(node.name, names, body, counted=True)

        return c.tuple(*[one(node) for node in group])

    name = ".".join(n.name for n in group)
    env.update(
        _siblings(c, group, defaults_of, c.call(c.function(name, ("self",), definitions, recursive=True)))
    )


def _siblings(
    c: Statements,
    group: Sequence[ast.FunctionDef],
    defaults_of: Sequence[dict[str, SSAValue]],
    whole: SSAValue,
) -> dict[str, Value]:
    functions: dict[str, Value] = {}
    for index, node in enumerate(group):
        names, rest = parameters(node.args)
        functions[node.name] = _named(
            described(c, c.get(whole, index), names, defaults_of[index], rest), node.name
        )
    return functions


def _named(value: SSAValue, name: str) -> SSAValue:
    if value.name_hint is None and name.isascii():
        value.name_hint = name
    return value


def apply(
    c: Expressions, function: SSAValue, values: list[SSAValue], keywords: dict[str, SSAValue], node: ast.AST
) -> SSAValue:
    """A call of a function value: by its full parameters where they are known."""
    known = c.signature(function)
    if known is None:
        if keywords:
            c.fail(node, "keywords in the call of an unknown function", "pass the arguments by position")
        return c.call(function, *values)
    plain = known.names[: len(known.names) - known.rest]
    tail: list[SSAValue] = []
    if len(values) > len(plain):
        if not known.rest:
            c.fail(node, f"{len(values)} arguments for {len(plain)} parameters")
        tail = values[len(plain) :]
    by_name = dict(zip(plain, values, strict=False))
    for name, value in keywords.items():
        if name not in plain or name in by_name:
            c.fail(
                node, f"there is no parameter '{name}'" if name not in plain else f"'{name}' is given twice"
            )
        by_name[name] = value
    missing = [n for n in plain if n not in by_name and n not in known.defaults]
    if missing:
        c.fail(node, f"no value for parameter{'s' * (len(missing) > 1)} {', '.join(missing)}")
    arguments = [by_name[n] if n in by_name else known.defaults[n] for n in plain]
    return c.call(known.full, *arguments, *([c.tuple(*tail)] if known.rest else []))


__all__ = ["Static", "apply", "closure", "compile_body", "define", "described", "parameters"]
