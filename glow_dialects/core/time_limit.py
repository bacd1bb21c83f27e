"""The time limit of a compilation, after which optional work is skipped.

Passes say of themselves that they are optional (`LevelPass.OPTIONAL`): programs are right without them.
The runner of passes skips those, and the rewriting driver applies no more rewrites of the one that runs.
The rest of the compilation takes what it takes.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from glow_dialects.core.errors import UnsupportedError

#: The note of a report where the time was not enough.
NOTE = "compile budget"


def seconds_of(value: object) -> float:
    """Seconds that a user gives; UnsupportedError for what is no number of at least 0."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise UnsupportedError(f"compile_budget={value!r}: a number of seconds, 0 or more, or None for no limit")


@dataclass
class TimeLimit:
    """`seconds` from when it is made, and the names of the passes that were left out, or not finished."""

    seconds: float
    start: float = field(default_factory=time.perf_counter)
    left_out: dict[str, None] = field(default_factory=dict[str, None])
    cut_short: dict[str, None] = field(default_factory=dict[str, None])
    #: The optional pass that runs.
    running: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() - self.start >= self.seconds

    def skips(self, name: str) -> bool:
        """Whether an optional pass is left out now."""
        if self.is_over:
            self.left_out[name] = None
            return True
        return False

    @contextmanager
    def during(self, name: str) -> Generator[None]:
        """An optional pass runs in the block."""
        self.running = name
        try:
            yield
        finally:
            self.running = None

    def ends_rewriting(self) -> bool:
        """Whether the pass that runs shall apply no more rewrites."""
        if self.running is None or not self.is_over:
            return False
        self.cut_short[self.running] = None
        return True

    def note(self) -> str:
        """What a report says; empty where the time was enough."""
        parts = [("left out", self.left_out), ("cut short", self.cut_short)]
        told = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        return f"{self.seconds:g} s used up; {told}" if told else ""


_limit: ContextVar[TimeLimit | None] = ContextVar("limit", default=None)


def current() -> TimeLimit | None:
    """The limit of the compilation that runs here, if it has one."""
    return _limit.get()


@contextmanager
def limited(seconds: float | None) -> Generator[TimeLimit | None]:
    """Compile in the block, for so many seconds with everything that is optional; None: without end.

    A compilation that is a part of another one has the limit of that one.
    """
    if seconds is None or _limit.get() is not None:
        yield _limit.get()
        return
    made = TimeLimit(seconds_of(seconds))
    before = _limit.set(made)
    try:
        yield made
    finally:
        _limit.reset(before)
