"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table of HTML; cells are written as text."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
