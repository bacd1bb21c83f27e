"""The syntax tree of a Python function, with its file and lines.

A function is looked up by its code object: the line that it begins on and, of lambdas that begin on
one line, the places of its instructions. The text is compiled and compared with the function, so that
the text of a file that was edited after it was imported is not taken for the program that runs.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
import inspect
import linecache
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from glow_frontends.python.desugar import desugared
from glow_frontends.python.errors import FunctionError


@dataclass
class Source:
    """A function's tree, file, and the names that it sees from outside.

    `called` is where the user's text calls a function of ours, such as the one written for `math.isqrt`.
    """

    node: ast.FunctionDef | ast.Lambda
    file: str
    lines: list[str]
    names: dict[str, Any]
    called: str = ""

    def where(self, node: ast.AST) -> str:
        """`file:line` of a node of the tree, in the text of the user."""
        return self.called or f"{self.file}:{getattr(node, 'lineno', 1)}"

    def excerpt(self, node: ast.AST) -> str:
        """The line of a node with a mark under it; of a function of ours nothing."""
        line = getattr(node, "lineno", 1)
        if self.called or not 1 <= line <= len(self.lines):
            return ""
        text = self.lines[line - 1].rstrip()
        margin = len(text) - len(text.lstrip())
        start = _column(text, getattr(node, "col_offset", 0))
        here = getattr(node, "end_lineno", 0) == line
        end = _column(text, getattr(node, "end_col_offset", 0)) if here else len(text)
        return f"    {text[margin:]}\n    {' ' * (start - margin)}{'^' * max(1, end - start)}"


def read(function: Callable[..., Any]) -> Source:
    """The source of a function; FunctionError where there is none (exec), or one that was edited since."""
    name = getattr(function, "__qualname__", repr(function))
    code: CodeType | None = getattr(function, "__code__", None)  # a wrapper's own, not that of what it wraps
    file = code and inspect.getsourcefile(code)
    if file:
        linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__) if file else []
    if code is None:
        name = getattr(getattr(function, "__self__", function), "__name__", name)
        raise FunctionError(
            f"{name} is not written in Python", f"call it in a function of yours: lambda x: {name}(x)"
        )
    if not file or not lines:
        raise FunctionError(f"the source of {name} cannot be read", "write it in a file or a notebook cell")
    where = f"{file}:{code.co_firstlineno}"
    try:
        tree, codes = _parsed("".join(lines), file, code.co_flags & __future__.annotations.compiler_flag)
    except (SyntaxError, ValueError):
        tree, codes = ast.Module([], []), frozenset[CodeType]()
    node = _node_of(tree, code)
    # A test runner that rewrites assertions adds names that no source can have: such code is not compared.
    if node is None or (code not in codes and not any(n.startswith("@") for n in _all_names(code))):
        hint = "import it again, so that what is compiled is what Python runs"
        raise FunctionError(f"{file} is not the text any more that {name} was made of", hint, where)
    if isinstance(node, ast.AsyncFunctionDef):
        raise FunctionError(f"{name} is a coroutine", "use def", where)
    # A copy: what is compiled is written with less of Python.
    plain = desugared(copy.deepcopy(node))
    assert isinstance(plain, ast.FunctionDef | ast.Lambda)
    return Source(plain, file, lines, _names(function))


@lru_cache(maxsize=64)
def _parsed(text: str, file: str, flags: int) -> tuple[ast.Module, frozenset[CodeType]]:
    """The tree of a file, and the code of all functions in it."""
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as notebooks do
    with warnings.catch_warnings(action="ignore"):  # Python has warned when it imported the file
        tree = ast.parse(text)
        return tree, frozenset(_inside(compile(tree, file, "exec", flags, dont_inherit=True)))


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)


def _all_names(code: CodeType) -> Iterator[str]:
    for each in (code, *_inside(code)):
        yield from (*each.co_names, *each.co_varnames)


def _node_of(tree: ast.Module, code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    """The function of a tree that a code object was made of."""
    if code.co_name != "<lambda>":
        functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        return next(
            (f for f in functions if f.name == code.co_name and _line(f) == code.co_firstlineno), None
        )
    lambdas = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    places = [p for p in _places(code) if p != (code.co_firstlineno, 0, code.co_firstlineno, 0)]
    if len(lambdas) > 1 and not places:  # python -X no_debug_ranges
        where = f"{code.co_filename}:{code.co_firstlineno}"
        raise FunctionError("several lambdas begin on this line", "give each its own line", where)
    holding = [n for n in lambdas if all(_holds(n.body, p) for p in places)]
    # Of lambdas inside each other the innermost: an outer one makes it, by an instruction outside its body.
    return max(holding, key=lambda n: sum(_holds(o.body, _place(n.body)) for o in holding), default=None)


def _line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _places(code: CodeType) -> Iterator[tuple[int, int, int, int]]:
    """First line and column, last line and column of each instruction of a body."""
    for line, last, column, end in code.co_positions():
        if line is not None and last is not None and column is not None and end is not None:
            yield line, column, last, end


def _place(node: ast.expr) -> tuple[int, int, int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _holds(node: ast.expr, place: tuple[int, int, int, int]) -> bool:
    own = _place(node)
    return own[:2] <= place[:2] and place[2:] <= own[2:]


def _column(text: str, offset: int) -> int:
    """The character of a line at an offset of a tree, which counts bytes."""
    return len(text.encode()[:offset].decode(errors="ignore"))


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    names: dict[str, Any] = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return names
