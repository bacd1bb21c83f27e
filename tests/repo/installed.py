"""The installed package runs what README shows: `python tests/repo/installed.py [DOCUMENT ...]`.

Run it with the Python of an environment that has the wheel and nothing of this checkout (`make smoke`). The
blocks run in an empty folder. Commands that need a package which is not there, or another processor, are left
out and listed.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

from documents import NOT_RUN, ROOT, fences, run_console, run_python

#: Packages that documents use where they are installed.
OPTIONAL = ("jax", "onnxruntime", "tokenizers", "torch", "transformers")
X86 = re.compile(r"--mcpu (haswell|skylake)|vfmadd")


def missing(text: str) -> str:
    """Why a block or a command cannot run here; empty if it can."""
    if absent := [name for name in OPTIONAL if re.search(rf"\b{name}\b", text) and not find_spec(name)]:
        return f"{absent[0]} is not installed"
    if X86.search(text) and platform.machine().lower() not in ("x86_64", "amd64"):
        return f"this is {platform.machine()}"
    return ""


def entries(text: str) -> list[str]:
    """A console block in pieces: each command with the lines shown under it."""
    return re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]


def run(document: str) -> None:
    """Run a document's blocks in this folder."""
    namespace: dict[str, object] = {"__name__": "document"}
    for block in fences(document):
        if block.language == "python":
            pieces = [block.text]
        elif block.language == "console" and not block.text.startswith(NOT_RUN):
            pieces = entries(block.text)
        else:
            continue
        for piece in pieces:
            place = f"{document}:{block.line}: {piece.splitlines()[0]}"
            if reason := missing(piece):
                print(f"left out {place}: {reason}")
            elif block.language == "python":
                run_python(replace(block, text=piece), namespace)
                print(f"ran {place}")
            else:
                run_console(replace(block, text=piece), Path())
                print(f"ran {place}")


def main() -> None:
    """Run README, or the documents that are named."""
    import glow_compiler

    place = Path(glow_compiler.__file__ or "").resolve()
    if place.is_relative_to(ROOT / "tools"):
        sys.exit(f"error: {place} is of the checkout; install the wheel, and unset PYTHONPATH")
    installed = distribution("glow-compiler")
    print(f"{installed.name} {installed.version}, Python {platform.python_version()}, {platform.platform()}")
    for document in sys.argv[1:] or ["README.md"]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.chdir(folder)
            run(document)
            os.chdir(ROOT)


if __name__ == "__main__":
    main()
