"""Rules on the files of the repository: sizes, places, contents."""

from __future__ import annotations

import re
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


@cache
def python_files() -> dict[str, str]:
    """The text of every Python file of ours, by its path from the root."""
    paths = sorted(path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_files_are_small() -> None:
    """A file is one room with one purpose."""
    lengths = {name: len(text.splitlines()) for name, text in python_files().items()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}, "split them"


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
