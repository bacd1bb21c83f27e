"""Source locations of type errors: `file:line: what`, with the line below."""

from __future__ import annotations

import linecache
from typing import TypeVar

from glow_dialects.core.errors import GlowError

Error = TypeVar("Error", bound=GlowError)


def placed(error: Error, where: str) -> Error:
    """An error of derived code, which stands nowhere, at the place of the call that led to it."""
    message = str(error)
    if not where or not message.startswith(("grad: ", ": ")):
        return error
    return type(error)(f"{where}: {message.partition(': ')[2]}")


def with_line(error: Error) -> Error:
    """The error with the line of Python text that it names under it."""
    first, *rest = str(error).split("\n")
    file, _, tail = first.partition(".py:")
    number = tail.partition(":")[0]
    text = linecache.getline(f"{file}.py", int(number)).strip() if number.isdigit() and not rest else ""
    return type(error)(f"{first}\n    {text}") if text else error
