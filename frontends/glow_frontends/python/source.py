"""The syntax tree of a Python function object, with the file and lines it stands on."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glow_frontends.python.desugar import desugared
from glow_frontends.python.errors import FunctionError


@dataclass
class Source:
    """A function's tree, file, first line, and the names that it sees from outside."""

    node: ast.FunctionDef | ast.Lambda
    file: str
    lines: list[str]
    first: int
    names: dict[str, Any]

    def where(self, node: ast.AST) -> str:
        """`file:line` of a node of the tree."""
        return f"{self.file}:{self.first + getattr(node, 'lineno', 1) - 1}"

    def excerpt(self, node: ast.AST) -> str:
        """The line of a node with a mark under it."""
        line = getattr(node, "lineno", 1)
        if not 1 <= line <= len(self.lines):
            return ""
        text = self.lines[line - 1]
        start = getattr(node, "col_offset", 0)
        end = (
            getattr(node, "end_col_offset", len(text))
            if getattr(node, "end_lineno", 0) == line
            else len(text)
        )
        return f"    {text}\n    {' ' * start}{'^' * max(1, end - start)}"


def read(function: Callable[..., Any]) -> Source:
    """The source of a function; FunctionError where there is none (built-in, made by exec)."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        text, first = inspect.getsourcelines(function.__code__)  # a wrapper's own, not that of what it wraps
    except (OSError, TypeError, AttributeError):
        hint = "write it in a file or a notebook cell"
        raise FunctionError(f"the source of {name} cannot be read", hint) from None
    dedented = textwrap.dedent("".join(text))
    file = inspect.getsourcefile(function.__code__) or "<unknown>"
    code = function.__code__
    tree = desugared(_parse(dedented, name, f"{file}:{first}"))
    node = _find(tree, code, first)
    if node is None:
        raise FunctionError(f"the source of {name} is not a plain function", "use def", f"{file}:{first}")
    return Source(node, file, dedented.splitlines(), first, _names(function))


def _parse(text: str, name: str, where: str) -> ast.AST:
    try:
        return ast.parse(text)
    except SyntaxError:
        # A lambda in the middle of an expression: the line alone is no statement.
        for start in (i for i in range(len(text)) if text.startswith("lambda", i)):
            for end in range(len(text), start, -1):
                try:
                    tree = ast.parse("\n" * text.count("\n", 0, start) + text[start:end], mode="eval")
                except SyntaxError:
                    continue
                return tree
    raise FunctionError(f"the source of {name} cannot be parsed alone", "give the lambda its own line", where)


def _find(tree: ast.AST, code: Any, first: int) -> ast.FunctionDef | ast.Lambda | None:
    want_lambda = code.co_name == "<lambda>"
    parameters = code.co_varnames[: code.co_argcount]
    matches: list[ast.FunctionDef | ast.Lambda] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and want_lambda:
            if tuple(a.arg for a in [*node.args.posonlyargs, *node.args.args]) == parameters:
                matches.append(node)
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name and not want_lambda:
            matches.append(node)
    if want_lambda and len(matches) > 1:
        named = set(code.co_names) | set(code.co_freevars) | set(parameters)
        positions = getattr(code, "co_positions", None)
        columns = [p[2] for p in positions() if p[2] is not None] if positions else []
        same = [
            n
            for n in matches
            if isinstance(n, ast.Lambda)
            and {x.id for x in ast.walk(n.body) if isinstance(x, ast.Name)} <= named
        ]
        near = [n for n in same or matches if columns and n.col_offset <= min(c for c in columns if c > 0)]
        return (near or same or matches)[-1 if near else 0]
    return matches[0] if matches else None


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    import builtins

    names: dict[str, Any] = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return names
