"""Messages of verifiers and parsers say what to do, not only what was found."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The ways in which a message says what is wanted: behind a semicolon, or in its sentence.
WANTED = re.compile(r";|\?|\b(expected|must|needs?|takes?|wants?|not one of|not in|belong)\b")


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each message that is written where it is raised."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="VerifyException") | ast.Attribute(attr="raise_error"), args=[a, *_]
            ):
                texts = [n.value for n in ast.walk(a) if isinstance(n, ast.Constant)]
                whole = " ".join(str(t) for t in texts)
                if isinstance(a, ast.JoinedStr | ast.Constant):
                    yield node.lineno, whole
            case _:
                pass


@pytest.mark.slow
def test_messages_of_verifiers_say_what_to_do() -> None:
    """Each names what is wanted, by an advice behind a semicolon or in its words."""
    silent: list[str] = []
    for folder in ("glow_dialects", "backends/glow_backends"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for line, text in messages(ast.parse(file.read_text())):
                if WANTED.search(text) is None:
                    silent.append(f"{file.relative_to(ROOT)}:{line}: {text}")
    assert not silent, "\n".join(silent)
