"""Documents and their blocks: what finds them, and what runs them in an empty folder."""

from __future__ import annotations

import doctest
import importlib.util
import linecache
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: How the first line of a console block begins that the tests leave out.
NOT_RUN = "# not run by the tests: "
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


def run_python(block: Fence, namespace: dict[str, object]) -> None:
    """Run a block in the namespace of the blocks before it."""
    # The document with this block alone, so that tracebacks, and functions that are compiled from their
    # source, find their lines.
    name = f"{block.document}:{block.line}"
    text = "\n" * block.line + block.text
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), namespace)


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
    for optional in ("torch", "jax", "onnxruntime"):
        if re.search(rf"\b{optional}\b", text) and not importlib.util.find_spec(optional):
            return False  # which is no dependency
    return "glow_compiler" not in text or bool(importlib.util.find_spec("glow_compiler.api"))
