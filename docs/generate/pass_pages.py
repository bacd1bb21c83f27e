"""The reference of passes and pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from inspect import getsourcefile
from pathlib import Path
from typing import Any

from page_text import block, code, docstring, summary, table
from xdsl.passes import ModulePass

from glow_tools.pipelines import every_pass, named

ROOT = Path(__file__).parents[2]
INTRODUCTION = """# Passes

`glow-opt FILE -p PASSES` runs passes and [pipelines](#pipelines) by name. Options are in braces:
`glow-schedule{by=order}`. In Python, a pass is a frozen dataclass, and its options are its fields:
`DecomposePass().apply(context, module)`. The tutorial [a pass](../tutorials/pass.md) writes one.
"""
PIPELINES = """## Pipelines

A pipeline is a named list of passes. `glow-opt -p NAME --show-pipeline` prints it with options.
"""


def page() -> Iterator[str]:
    """The page's lines."""
    passes = dict(sorted(every_pass().items()))
    yield INTRODUCTION
    yield from table(("pass", ""), ((f"[{n}](#{n})", summary(p.__doc__)) for n, p in passes.items()))
    yield PIPELINES
    for name, items in named().items():
        yield f"### {name}\n"
        yield from (f"1. [{p.name}](#{p.name})" for p in items)
        yield ""
    for name, kind in passes.items():
        yield from _section(name, kind)


def _section(name: str, kind: type[ModulePass]) -> Iterator[str]:
    yield f"## {name} {{ #{name} }}\n"
    yield from _documented(kind.__doc__ or "")
    if options := fields(kind):
        yield from table(("option", "type", "default"), (_option(field) for field in options))
    file = getsourcefile(kind)
    if file is not None and Path(file).is_relative_to(ROOT):
        path = Path(file).relative_to(ROOT)
        yield f"[{path}](../../{path})\n"


def _documented(text: str) -> Iterator[str]:
    """A docstring, in which programs before and after a rewrite are code."""
    head, _, rest = text.partition("\n")
    yield from docstring(head)
    if "->" in rest or "%" in rest:
        yield from block(line.removeprefix("    ") for line in rest.strip("\n").rstrip().splitlines())
    else:
        yield from docstring(rest)


def _option(field: Field[Any]) -> tuple[str, str, str]:
    default = "required" if field.default is MISSING else code(repr(field.default))
    return code(field.name), code(str(field.type)), default
