"""The reference of the Python API: every public name of `glow_compiler`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from types import ModuleType
from typing import Any

from page_text import block, docstring, summary, table

import glow_compiler

INTRODUCTION = """# Python API

`import glow_compiler as glow`. Errors of the caller are a [GlowError](#GlowError) or a `TypeError`. The
message says what is wrong, where, and what to do.
"""


def page() -> Iterator[str]:
    """The page's lines."""
    yield INTRODUCTION
    public = {name: getattr(glow_compiler, name) for name in glow_compiler.__all__}
    yield from table(("name", ""), ((f"[{n}](#{n})", summary(inspect.getdoc(v))) for n, v in public.items()))
    for name, value in public.items():
        yield f"## {name} {{ #{name} }}\n"
        yield from _described(name, value)


def _described(name: str, value: Any) -> Iterator[str]:
    """A public name: a module with its own, a class with its methods, a function."""
    if isinstance(value, ModuleType):
        yield from docstring(value.__doc__)
        for own, member in _members(value.__dict__):
            yield f"### {name}.{own} {{ #{name}.{own} }}\n"
            yield from _described(f"{name}.{own}", member)
        return
    yield from _signature(f"glow.{name}", value)
    yield from docstring(inspect.getdoc(value))
    if isinstance(value, type) and not issubclass(value, Exception):
        yield from _class(name, value)
    elif isinstance(value, type):
        bases = ", ".join(b.__name__ for b in value.__bases__)
        yield f"Derived from {bases}.\n"


def _class(name: str, value: type) -> Iterator[str]:
    """Methods and properties, the inherited ones too."""
    bases = value.__mro__[:-1]
    inherited = {n: v for base in reversed(bases) for n, v in vars(base).items()}
    if value is glow_compiler.GraphBuilder:
        declared = sorted({n for base in bases for n in vars(base).get("__annotations__", ())})
        links = (f"[{n}](operators.md#{n.removeprefix('logical_')})" for n in declared)
        yield f"Operators of operands alone: {', '.join(links)}. [Every other](operators.md) is a method.\n"
    for own, member in sorted(inherited.items()):
        documented = getattr(member, "__doc__", None)
        if (own.startswith("_") and own != "__call__") or not documented:
            continue
        if isinstance(member, property):
            yield f"**{name}.{own}**: {summary(documented)}\n"
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            yield from _signature(f"{name}.{own}", getattr(member, "__func__", member))
            yield from docstring(inspect.getdoc(member))


def _members(names: dict[str, Any]) -> list[tuple[str, Any]]:
    """The public functions and classes of our own in a namespace."""
    module = names["__name__"]
    return [
        (n, v)
        for n, v in names.items()
        if not n.startswith("_") and getattr(v, "__module__", "") == module and isinstance(v, type | Callable)
    ]


def _signature(name: str, value: Any) -> Iterator[str]:
    """How it is called, a parameter a line where one line is too long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    parts: list[str] = []
    kinds = [p.kind for p in signature.parameters.values()]
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is Parameter.KEYWORD_ONLY and not {Parameter.VAR_POSITIONAL, parameter.kind} & {
            *kinds[:number]
        }:
            parts.append("*")
        if parameter.name != "self" or number:
            parts.append(_parameter(parameter))
    result = signature.return_annotation
    ending = ")" if result is Parameter.empty or isinstance(value, type) else f") -> {_type(result)}"
    line = f"{name}({', '.join(parts)}{ending}"
    lines = [line] if len(line) <= 100 else [f"{name}(", *(f"    {p}," for p in parts), ending]
    yield from block(lines, "python")


def _parameter(parameter: Parameter) -> str:
    stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    typed = "" if parameter.annotation is Parameter.empty else f": {_type(parameter.annotation)}"
    if parameter.default is Parameter.empty:
        return f"{stars}{parameter.name}{typed}"
    return f"{parameter.name}{typed}{' = ' if typed else '='}{parameter.default!r}"


def _type(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
