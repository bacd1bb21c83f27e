"""Rules on the files of the repository: sizes, places, contents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE_FOLDERS = (
    "glow_dialects",
    "frontends",
    "passes",
    "backends",
    "runtime",
    "tools",
    "tests",
    "benchmarks",
    "examples",
)
MAX_LINES = 800
MAX_FUNCTION = 50
"""Lines of a function's body, its docstring aside; ruff counts its branches."""


@cache
def python_files() -> dict[str, str]:
    """The text of every Python file of ours, by its path from the root."""
    paths = sorted(path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_files_are_small() -> None:
    """A file is one room with one purpose."""
    lengths = {name: len(text.splitlines()) for name, text in python_files().items()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}, "split them"


def has_room(text: str) -> bool:
    """Whether a function may be too long, by where the next one begins: to parse all files takes seconds."""
    found = re.finditer(r"^( *)(?:async )?(def|class) ", text, re.M)
    starts = [(len(m[1]), text.count("\n", 0, m.start()), m[2]) for m in found]
    ends = [*starts[1:], (0, text.count("\n"), "")]
    return any(
        kind == "def" and next(end for far, end, _ in ends[i:] if far <= depth) - start > MAX_FUNCTION
        for i, (depth, start, kind) in enumerate(starts)
    )


def functions(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods; those inside of a function are part of it."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try | ast.With):
            yield from functions(node.body)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's body without its docstring."""
    match function.body:
        case [ast.Expr(ast.Constant(str())), first, *_] | [first, *_]:
            return (function.end_lineno or 0) - first.lineno + 1
    raise AssertionError("a function has a body")


def test_functions_are_small() -> None:
    """A function fits on a screen. Tables of tests and networks for them may be longer."""
    long = [
        f"{name}:{function.lineno}: {function.name} has {length(function)} lines"
        for name, text in python_files().items()
        if not name.startswith(("tests/", "benchmarks/")) and has_room(text)
        for function in functions(ast.parse(text).body)
        if length(function) > MAX_FUNCTION
    ]
    assert long == [], "split them"


def test_modules_say_what_they_are() -> None:
    """A module that holds code starts with a docstring."""
    code = {name: text for name, text in python_files().items() if text.strip()}
    assert [name for name, text in code.items() if not re.match(r'(#.*\n)*r?"""', text)] == []


TEXT_SUFFIXES = {".py", ".md", ".toml", ".mlir", ".cfg", ".yml", ".yaml", ".json", ".txt", ""}
MACHINE_PATH = re.compile(r"(?<![\w.~}/])/(?:work|root|home|Users|mnt|opt)/[\w.]")


def text_files() -> list[Path]:
    """Every text file of ours."""
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    folders = (ROOT / name for name in (*SOURCE_FOLDERS, "docs", ".ci"))
    below = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted(
        path
        for path in top + below
        if path.suffix in TEXT_SUFFIXES and not {".ruff_cache", "__pycache__"} & set(path.parts)
    )


def test_no_machine_paths() -> None:
    """Nothing names a folder of the machine it was written on."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []
