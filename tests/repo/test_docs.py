"""The documents are true: their Python blocks run and their console blocks print what they show."""

from __future__ import annotations

import doctest
import importlib.util
import linecache
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).parents[2]
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
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


def prepare(folder: Path) -> None:
    """The file that the documents' examples start from: light SqueezeNet as `model.onnx`."""
    shutil.copy(LIGHT / "light_squeezenet.onnx", folder / "model.onnx")


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


def run_python(blocks: Sequence[Fence]) -> None:
    """Run blocks one after another in one namespace, as a reader would."""
    namespace: dict[str, object] = {"__name__": "document"}
    for document in dict.fromkeys(block.document for block in blocks):
        # The document with its Python alone, so that tracebacks, and functions that are compiled from their
        # source, find its own lines.
        lines = ["\n"] * len((ROOT / document).read_text(encoding="utf-8").splitlines())
        for block in (b for b in blocks if b.document == document):
            text = block.text.splitlines(keepends=True)
            lines[block.line : block.line + len(text)] = text
        linecache.cache[document] = (sum(map(len, lines)), None, lines, document)
        exec(compile("".join(lines), document, "exec"), namespace)


def run_console(block: Fence, folder: Path) -> None:
    """Run each command; the output shown, with `...` for any text, is what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
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
    if not all(importlib.util.find_spec(f"glow_tools.{tool}") for tool in tools - {"compiler"}):
        return False
    if re.search(r"\btorch\b", text) and not importlib.util.find_spec("torch"):
        return False  # which is no dependency
    return "glow_compiler" not in text or bool(importlib.util.find_spec("glow_compiler.api"))


@pytest.mark.slow
@pytest.mark.parametrize("document", documents())
def test_document(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document's Python and console blocks run, in a folder that holds `model.onnx`."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in fences(document) if usable(block.text)]
    run_python([block for block in blocks if block.language == "python"])
    for block in blocks:
        if block.language == "console":
            run_console(block, tmp_path)


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: str) -> None:
    """Relative links name files of the repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    base = (ROOT / document).parent
    paths = [(target, Path(os.path.normpath(base / target))) for target in LINK.findall(text)]
    made = ROOT / "docs" / "reference"  # when the site is built, which tests links to it
    assert [target for target, path in paths if not path.exists() and path.parent != made] == []
