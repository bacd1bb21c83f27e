"""Rules on the files of the repository: sizes, places, contents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
MAX_LINES = 500


def python_files() -> list[str]:
    """Every Python file of ours, relative to the root."""
    return sorted(
        str(path.relative_to(ROOT)) for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*.py")
    )


@pytest.mark.parametrize("name", python_files())
def test_file_is_small(name: str) -> None:
    """A file is one room with one purpose."""
    lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{name} has {lines} lines, more than {MAX_LINES}: split it"


@pytest.mark.parametrize("name", python_files())
def test_module_says_what_it_is(name: str) -> None:
    """A module that holds code starts with a docstring."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not text.strip() or re.match(r'(#.*\n)*r?"""', text), f"{name} has no module docstring"


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
