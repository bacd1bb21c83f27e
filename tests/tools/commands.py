"""Running the commands in this process: exit status, output and messages."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unittest import mock


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    output: str
    messages: str


def run(command: Callable[[Sequence[str] | None], int], *arguments: object, text: str = "") -> Done:
    """Call a command's `main` with `text` on standard input."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.stdin", io.StringIO(text)),
    ):
        try:
            status = command([str(a) for a in arguments])
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return Done(status, out.getvalue(), err.getvalue())


def refused(done: Done, *words: str, status: int = 1) -> None:
    """The command ended with one clear message that holds `words`, and printed nothing else."""
    assert done.status == status, done
    assert done.output == "", done
    assert "Traceback" not in done.messages, done
    assert "internal error" not in done.messages, done
    if status == 1:
        assert done.messages.startswith("error: "), done
        assert done.messages.count("error: ") == 1, done
    for word in words:
        assert word in done.messages, (word, done)
