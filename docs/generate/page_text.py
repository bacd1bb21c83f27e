"""Small pieces of Markdown: tables, text from docstrings, anchors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc

#: Code between backticks, which is left as it is.
_CODE = re.compile(r"(`[^`]*`)")
#: The sections of a docstring, and the name at the start of an item of one.
SECTIONS = ("Args:", "Returns:", "Raises:", "Examples:")
_ITEM = re.compile(r"^(\*{0,2}\w+): ", re.MULTILINE)


def plain(text: str) -> str:
    """Text that has no Markdown in it but code between backticks."""
    parts = _CODE.split(text)
    return "".join(p if p.startswith("`") else re.sub(r"([<*_\[\]\\])", r"\\\1", p) for p in parts)


def cell(text: str) -> str:
    """Text in a cell of a table, where a bar would end it."""
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    """Code in a line, empty where there is none."""
    return f"`{text}`" if text else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one behind it."""
    yield f"| {' | '.join(header)} |"
    yield "| --- " * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"
    yield ""


def block(lines: Iterable[str], language: str = "text") -> Iterator[str]:
    """Lines of code, and an empty one behind them."""
    yield f"```{language}"
    yield from lines
    yield from ("```", "")


def docstring(text: str | None) -> Iterator[str]:
    """A docstring's paragraphs and sections; those that are Python are code."""
    for paragraph in cleandoc(text or "").split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0] in SECTIONS:
            yield from _section(lines[0], cleandoc("\n" + "\n".join(lines[1:])))
        elif _is_code(paragraph):
            yield from block((line.removeprefix("    ") for line in lines), "python")
        else:
            yield from (plain(line) for line in lines)
            yield ""


def _section(title: str, text: str) -> Iterator[str]:
    """A section: a list of names with what they are, a sentence, or code."""
    yield f"**{title.removesuffix(':')}**\n"
    items = _ITEM.split(text)
    if title == "Examples:":
        yield from block(text.splitlines(), "pycon")
    elif len(items) > 1:
        for name, told in zip(items[1::2], items[2::2], strict=True):
            yield f"- `{name}`: {plain(' '.join(told.split()))}"
        yield ""
    else:
        yield from (plain(" ".join(text.split())), "")


def _is_code(paragraph: str) -> bool:
    """Whether a paragraph is Python: something is called."""
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(cleandoc(paragraph))))
    except SyntaxError:
        return False


def summary(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return plain(cleandoc(text or "").partition("\n\n")[0].replace("\n", " "))
