"""The documents are true: their Python blocks run and their console blocks print what they show.

A document runs in an empty folder, so it contains the lines that make its files. A console block that cannot
run in a test (it needs a server, a file of the reader's, or minutes) says so to the reader in its first line,
`# not run by the tests: ...`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from documents import NOT_RUN, ROOT, documents, fences, run_console, run_python, usable

#: A link of a document: the part before an anchor.
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@pytest.mark.slow
@pytest.mark.parametrize("document", documents())
def test_document(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document's Python and console blocks run, in an empty folder, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "document"}
    for block in fences(document):
        if block.language == "python" and usable(block.text):
            run_python(block, namespace)
        elif block.language == "console" and usable(block.text) and not block.text.startswith(NOT_RUN):
            run_console(block, tmp_path)


@pytest.mark.parametrize("document", documents())
def test_commands_are_in_console_blocks(document: str) -> None:
    """A block of another language that shows commands would not be run."""
    shown = [f"{b.document}:{b.line}" for b in fences(document) if b.language in ("text", "sh", "bash")]
    blocks = {f"{b.document}:{b.line}": b.text for b in fences(document)}
    assert [place for place in shown if re.search(r"^\$ ", blocks[place], re.MULTILINE)] == []


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: str) -> None:
    """Relative links name files of the repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    base = (ROOT / document).parent
    paths = [(target, Path(os.path.normpath(base / target))) for target in LINK.findall(text)]
    made = ROOT / "docs" / "reference"  # when the site is built, which tests links to it
    assert [target for target, path in paths if not path.exists() and path.parent != made] == []
