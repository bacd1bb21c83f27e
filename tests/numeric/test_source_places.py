"""Errors of types get the place and the line of the user's text, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from glow_dialects.core.errors import ShapeError, UnsupportedError
from glow_passes.fn.source_places import placed, with_line


@pytest.mark.parametrize(
    ("message", "where", "expected"),
    [
        ("grad: argument 3", "a.py:7", "a.py:7: argument 3"),
        (": add of None: no", "a.py:7", "a.py:7: add of None: no"),
        ("b.py:2: grad: of a float", "a.py:7", "b.py:2: grad: of a float"),  # it has a place
        ("grad: argument 3", "", "grad: argument 3"),  # there is none
    ],
)
def test_placed(message: str, where: str, expected: str) -> None:
    """An error of derived code stands where the call does; others stay where they are."""
    found = placed(ShapeError(message), where)
    assert str(found) == expected and type(found) is ShapeError


def test_with_line(tmp_path: Path) -> None:
    """The line that is named stands under the message, without its indent."""
    file = tmp_path / "text.py"
    file.write_text("def f(x):\n    return x + None\n\n")

    def told(message: str) -> str:
        found = with_line(UnsupportedError(message))
        assert type(found) is UnsupportedError
        return str(found)

    assert told(f"{file}:2: add of None") == f"{file}:2: add of None\n    return x + None"
    assert told(f"{file}:1: no value") == f"{file}:1: no value\n    def f(x):"
    for message in (
        f"{file}:2: add of None\n    x",  # it has a line
        f"{file}:3: nothing here",
        f"{file}:9: beyond the end",
        f"{file}:f: no number",
        "without a place",
    ):
        assert told(message) == message
