"""Progress of work that takes more than a moment: a line on a terminal, and nothing elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import ClassVar

#: Seconds before a line is shown, and between changes of it.
_QUIET, _STEP = 0.5, 0.1
_WHEEL = "|/-\\"


class Progress:
    """A line with what is being done, a wheel and seconds; it goes when the block ends.

    with Progress("reading the model") as progress: ...; progress("generating code"); ...
    """

    #: The one that is shown; what else is written to the terminal clears its line.
    shown: ClassVar[Progress | None] = None

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._written = threading.Lock()
        self._thread: threading.Thread | None = None

    def __call__(self, stage: str) -> None:
        """Go on to another stage."""
        self.stage = stage

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and Progress.shown is None:
            Progress.shown = self
            self._thread = threading.Thread(target=self._turn, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            Progress.shown = None
            self.clear()

    def clear(self) -> None:
        """Take the line away, until it is written again."""
        with self._written:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _turn(self) -> None:
        """Write the line until the block ends."""
        if self._ended.wait(_QUIET):
            return
        number = 0
        while not self._ended.wait(_STEP):
            seconds, number = time.monotonic() - self._start, number + 1
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            line = f"{_WHEEL[number % len(_WHEEL)]} {self.stage} ({seconds:.0f} s)"[: max(10, columns - 1)]
            with self._written:
                sys.stderr.write(f"\r{line}\x1b[K")
                sys.stderr.flush()


def clear_line() -> None:
    """Take the line of progress away, where there is one, before something else is written."""
    if Progress.shown is not None:
        Progress.shown.clear()
