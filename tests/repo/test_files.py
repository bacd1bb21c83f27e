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
        str(path.relative_to(ROOT))
        for folder in SOURCE_FOLDERS
        for path in (ROOT / folder).rglob("*.py")
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
