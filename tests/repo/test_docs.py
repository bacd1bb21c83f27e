"""The documents are true: their Python blocks run and their console blocks print what they show."""

from __future__ import annotations

import doctest
import importlib.util
import linecache
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from glow_tools.command_table import COMMANDS, INNER, module_of

ROOT = Path(__file__).parents[2]
#: A link of a document: the part before an anchor.
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """One fenced block of a document: its language, text, and first line's number."""

    document: str
    line: int
    language: str
    text: str


def documents() -> list[str]:
    """Every document, relative to the root."""
    folders = (ROOT / name for name in ("docs", "benchmarks", "examples"))
    paths = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def fences(document: str) -> list[Fence]:
    """The fenced blocks of a document, in order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Fence(document, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in BLOCK.finditer(text)
    ]


def installed(folder: Path) -> str:
    """A PATH with the commands of this checkout, those that are not installed yet too."""
    folder.mkdir()
    for name in ("glow", *(f"glow-{name}" for name in COMMANDS)):
        words = [
            sys.executable,
            "-m",
            "glow_tools",
            *([] if name == "glow" else [name.removeprefix("glow-")]),
        ]
        if not (Path(sys.executable).parent / name).exists():
            (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            (folder / name).chmod(0o755)
    return os.pathsep.join([str(Path(sys.executable).parent), str(folder), os.environ["PATH"]])


def commands(text: str) -> list[tuple[str, str]]:
    """The `$ command` lines of a console block, each with the output shown under it."""
    entries: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            entries.append((line[2:], ""))
        elif entries and entries[-1][0].endswith("\\"):
            entries[-1] = (entries[-1][0][:-1] + line.strip(), "")
        elif entries:
            entries[-1] = (entries[-1][0], entries[-1][1] + line + "\n")
    return entries


def run_blocks(document: str, blocks: Sequence[Fence], console: Callable[[Fence], None]) -> None:
    """Run the Python of a document in one namespace, and its consoles where they stand, as a reader would."""
    # The document with its Python alone, so that tracebacks, and functions that are compiled from their
    # source, find its own lines.
    lines = ["\n"] * len((ROOT / document).read_text(encoding="utf-8").splitlines())
    for number, block in enumerate(blocks):
        text = block.text.splitlines(keepends=True)
        if block.language == "python":
            lines[block.line : block.line + len(text)] = text
        elif block.language == "console":
            lines[block.line] = f"__console__({number})\n"
    linecache.cache[document] = (sum(map(len, lines)), None, lines, document)
    namespace = {"__name__": "document", "__console__": lambda number: console(blocks[number])}
    exec(compile("".join(lines), document, "exec"), namespace)


def run_console(block: Fence, folder: Path, path: str) -> None:
    """Run each command; the output shown, with `...` for any text, is what it prints."""
    for command, shown in commands(block.text):
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        place = f"{block.document}:{block.line}: {command}"
        assert done.returncode == 0, f"{place}\n{done.stdout}{done.stderr}"
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if shown.strip():
            same = doctest.OutputChecker().check_output(shown, done.stdout, flags)
            assert same, f"{place}\nshown:\n{shown}\nprinted:\n{done.stdout}"


def usable(text: str) -> bool:
    """Whether the commands and interfaces of a block are part of this checkout."""
    tools = set(re.findall(r"\bglow-([a-z]+)\b", text))
    tools |= set(re.findall(r"^\$ glow ([a-z-]+)", text, re.MULTILINE)) - set(INNER)
    if not all(importlib.util.find_spec(module_of(tool)) for tool in tools - {"compiler"}):
        return False
    if re.search(r"\btorch\b", text) and not importlib.util.find_spec("torch"):
        return False  # which is no dependency
    return "glow_compiler" not in text or bool(importlib.util.find_spec("glow_compiler.api"))


@pytest.mark.slow
@pytest.mark.parametrize("document", documents())
def test_document(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document's Python and console blocks run in their order, in a folder that is empty at first."""
    path, folder = installed(tmp_path / "bin"), tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", path)
    blocks = [block for block in fences(document) if usable(block.text)]
    run_blocks(document, blocks, lambda block: run_console(block, folder, path))


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: str) -> None:
    """Relative links name files of the repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    base = (ROOT / document).parent
    paths = [(target, Path(os.path.normpath(base / target))) for target in LINK.findall(text)]
    made = ROOT / "docs" / "reference"  # when the site is built, which tests links to it
    assert [target for target, path in paths if not path.exists() and path.parent != made] == []
